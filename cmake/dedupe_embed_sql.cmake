# dedupe_embed_sql(TARGET DIRECTORY DIRECTORY OUTPUT_HEADER_INCLUDE HEADER)
#
# Adds to TARGET a source that defines dedupe::EmbeddedMigrations(), declared in
# HEADER: the text and SHA-256 of every DIRECTORY/NNNN_verb_object.up.sql, by
# version. write_embedded_sql.cmake writes it again whenever a file changes.
set(dedupe_write_embedded_sql "${CMAKE_CURRENT_LIST_DIR}/write_embedded_sql.cmake")

function(dedupe_embed_sql target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIRECTORY;OUTPUT_HEADER_INCLUDE" "")
  cmake_path(ABSOLUTE_PATH arg_DIRECTORY NORMALIZE)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded_sql.cc")

  # The one glob of this build. A migration is found by its name alone, by psql
  # and golang-migrate as well as here; a list could lack one that they apply.
  file(GLOB sql_files CONFIGURE_DEPENDS "${arg_DIRECTORY}/*.up.sql")
  if(NOT sql_files)
    message(FATAL_ERROR "no *.up.sql in ${arg_DIRECTORY}")
  endif()

  add_custom_command(
      OUTPUT "${output}"
      COMMAND ${CMAKE_COMMAND}
              "-DDIRECTORY=${arg_DIRECTORY}"
              "-DHEADER=${arg_OUTPUT_HEADER_INCLUDE}"
              "-DOUTPUT=${output}"
              -P "${dedupe_write_embedded_sql}"
      DEPENDS ${sql_files} "${dedupe_write_embedded_sql}"
      COMMENT "Embedding the migrations"
      VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
