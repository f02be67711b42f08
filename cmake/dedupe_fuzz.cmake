# dedupe_fuzz(NAME LIBRARIES TARGET...)
#
# What NAME_fuzz.cc of this directory feeds with arbitrary bytes. With
# DEDUPE_FUZZ it is the program fuzz_NAME, which ./dev fuzz runs; without, it is
# a test that passes each file of corpus/NAME through it once, so that a mended
# crash stays mended under every compiler.
function(dedupe_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/${name}_fuzz.cc")
  if(DEDUPE_FUZZ)
    add_executable(fuzz_${name} "${source}")
    target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(fuzz_${name} PRIVATE dedupe_options ${arg_LIBRARIES})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(dedupe_fuzz_targets fuzz_${name})
  else()
    dedupe_test(
      fuzz_corpus_${name}
      SOURCES "${source}" "${CMAKE_CURRENT_SOURCE_DIR}/replay_corpus.cc"
      LIBRARIES ${arg_LIBRARIES}
      LABELS unit
      TIMEOUT 60
    )
    target_compile_definitions(
      fuzz_corpus_${name} PRIVATE DEDUPE_FUZZ_NAME="${name}"
    )
  endif()
endfunction()
