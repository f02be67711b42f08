# Run at build time with -P; see dedupe_embed_sql.cmake.
# Reads DIRECTORY/*.up.sql and writes OUTPUT, which includes HEADER.
cmake_minimum_required(VERSION 3.25)

# GLOB sorts by name, and four digits make that the order of the versions.
file(GLOB sql_files "${DIRECTORY}/*.up.sql")

set(entries "")
set(expected_version 1)
foreach(sql_file IN LISTS sql_files)
  cmake_path(GET sql_file FILENAME file_name)
  if(NOT file_name MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9]+_[a-z0-9_]+)\\.up\\.sql$")
    message(FATAL_ERROR "${sql_file}: the name is not NNNN_verb_object.up.sql")
  endif()
  set(digits "${CMAKE_MATCH_1}")
  set(name "${digits}_${CMAKE_MATCH_2}")
  # C++ reads a number with leading zeros as octal.
  string(REGEX REPLACE "^0+([0-9])" "\\1" version "${digits}")
  # A gap or a number used twice is what merging two branches leaves behind.
  if(NOT version EQUAL expected_version)
    message(FATAL_ERROR "${sql_file}: expected version ${expected_version} here")
  endif()
  math(EXPR expected_version "${expected_version} + 1")
  if(NOT EXISTS "${DIRECTORY}/${name}.down.sql")
    message(FATAL_ERROR "${sql_file}: there is no ${name}.down.sql")
  endif()

  file(SHA256 "${sql_file}" sha256)
  file(READ "${sql_file}" sql)
  string(FIND "${sql}" ")sql_text\"" delimiter_at)
  if(NOT delimiter_at EQUAL -1)
    message(FATAL_ERROR "${sql_file}: holds the delimiter of its C++ literal")
  endif()
  string(APPEND entries
         "    {${version}, \"${name}\", R\"sql_text(${sql})sql_text\",\n"
         "     \"${sha256}\"},\n")
endforeach()

file(WRITE "${OUTPUT}"
"// Written from migrations/*.up.sql by the build. Change those.
#include \"${HEADER}\"

#include \"absl/types/span.h\"

namespace dedupe {
namespace {

constexpr EmbeddedMigration kEmbeddedMigrations[] = {
${entries}};

}  // namespace

absl::Span<const EmbeddedMigration> EmbeddedMigrations() {
  return kEmbeddedMigrations;
}

}  // namespace dedupe
")
