# dedupe_proto_library(NAME PROTOS FILE... IMPORT_ROOT DIRECTORY)
#
# A static library of the messages and gRPC stubs of the .proto files, which are
# named relative to IMPORT_ROOT, as they are in import lines. Its headers are
# SYSTEM and it is compiled without dedupe_options: warnings in generated code
# are nobody's to mend.
#
# The target dedupe_generated makes all generated sources and compiles nothing,
# for tools that only read the code.
function(dedupe_proto_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "IMPORT_ROOT" "PROTOS")
  cmake_path(ABSOLUTE_PATH arg_IMPORT_ROOT NORMALIZE)
  set(output_root "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${output_root}")

  # A file may import any other of the library, so each depends on all of them.
  list(TRANSFORM arg_PROTOS PREPEND "${arg_IMPORT_ROOT}/" OUTPUT_VARIABLE proto_files)

  set(sources)
  set(headers)
  foreach(proto IN LISTS arg_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${output_root}/${proto}")
    add_custom_command(
        OUTPUT ${stem}.pb.cc ${stem}.pb.h ${stem}.grpc.pb.cc ${stem}.grpc.pb.h
        COMMAND protobuf::protoc
                "--proto_path=${arg_IMPORT_ROOT}"
                "--cpp_out=${output_root}"
                "--grpc_out=${output_root}"
                "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>"
                ${proto}
        DEPENDS ${proto_files}
        COMMENT "Generating C++ from ${proto}"
        VERBATIM)
    list(APPEND sources ${stem}.pb.cc ${stem}.grpc.pb.cc)
    list(APPEND headers ${stem}.pb.h ${stem}.grpc.pb.h)
  endforeach()

  add_library(${name} STATIC ${sources} ${headers})
  target_include_directories(${name}
      SYSTEM PUBLIC "$<BUILD_INTERFACE:${output_root}>")
  target_link_libraries(${name}
      PUBLIC gRPC::grpc++ protobuf::libprotobuf
      PRIVATE $<BUILD_INTERFACE:dedupe_code_generation>)

  add_custom_target(${name}_sources DEPENDS ${sources} ${headers})
  if(NOT TARGET dedupe_generated)
    add_custom_target(dedupe_generated)
  endif()
  add_dependencies(dedupe_generated ${name}_sources)
endfunction()
