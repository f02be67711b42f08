# dedupe_options: the C++ standard, warnings, hardening and sanitizers, linked
# PRIVATE by every target of ours. dedupe_code_generation is the part of it that
# generated code needs as well: everything except the warnings.

set(DEDUPE_SANITIZE "" CACHE STRING
    "Sanitizers to compile with: empty, address,undefined or thread")
set_property(CACHE DEDUPE_SANITIZE PROPERTY STRINGS
             "" "address,undefined" "thread")

option(DEDUPE_FUZZ
       "Build the fuzz targets with libFuzzer, all else for them (clang only)" OFF)

# A position-independent executable needs the link flag too, and CMake adds that
# only after this check.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(dedupe_code_generation INTERFACE)
target_compile_features(dedupe_code_generation INTERFACE cxx_std_20)

set(dedupe_is_optimized "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")

if(DEDUPE_SANITIZE)
  # Without fortify (it hides calls from AddressSanitizer) and -z,defs (the
  # runtime's symbols are found only when the program starts).
  target_compile_options(dedupe_code_generation INTERFACE
      -fsanitize=${DEDUPE_SANITIZE}
      -fno-sanitize-recover=all
      -fno-omit-frame-pointer)
  target_link_options(dedupe_code_generation INTERFACE
      -fsanitize=${DEDUPE_SANITIZE})
else()
  target_compile_options(dedupe_code_generation INTERFACE
      $<${dedupe_is_optimized}:-fstack-protector-strong>
      $<${dedupe_is_optimized}:-fstack-clash-protection>
      # GCC only: clang 14 has it behind a flag that says it will go away.
      $<$<AND:${dedupe_is_optimized},$<CXX_COMPILER_ID:GNU>>:-ftrivial-auto-var-init=zero>
      # Fortify needs optimization. The -U is for compilers that define it already.
      $<${dedupe_is_optimized}:-U_FORTIFY_SOURCE>
      $<${dedupe_is_optimized}:-D_FORTIFY_SOURCE=3>)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_compile_options(dedupe_code_generation INTERFACE
        $<${dedupe_is_optimized}:-fcf-protection=full>)
  endif()
  target_link_options(dedupe_code_generation INTERFACE
      -Wl,-z,relro,-z,now,-z,noexecstack,-z,defs)
endif()
if(DEDUPE_FUZZ)
  # Counters for libFuzzer, which steers by them, and for llvm-cov: one build
  # for both costs a third of the speed and saves half of the building.
  target_compile_options(dedupe_code_generation INTERFACE
      -fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(dedupe_code_generation INTERFACE -fprofile-instr-generate)
endif()
target_link_options(dedupe_code_generation INTERFACE -Wl,--as-needed)
target_compile_definitions(dedupe_code_generation INTERFACE _GLIBCXX_ASSERTIONS)
# Paths in messages and debug information start at the root of the sources: the
# same commit gives the same program wherever it was checked out. The second form
# is what ccache makes of the first to share its results between checkouts.
file(RELATIVE_PATH dedupe_path_to_sources "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
target_compile_options(dedupe_code_generation INTERFACE
    "$<${dedupe_is_optimized}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>"
    "$<${dedupe_is_optimized}:-ffile-prefix-map=${dedupe_path_to_sources}=>")

add_library(dedupe_options INTERFACE)
target_link_libraries(dedupe_options INTERFACE dedupe_code_generation)
target_compile_options(dedupe_options INTERFACE
    -Wall
    -Wextra
    -Wpedantic
    -Wformat=2
    -Wconversion
    -Wshadow
    -Wnon-virtual-dtor
    -Werror
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)

# Disabled warnings, each with its reason.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: "literal" + std::string is reported as overlapping memory.
  target_compile_options(dedupe_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND DEDUPE_SANITIZE)
  # GCC's manual: sanitizers' added code makes this warning report falsely.
  target_compile_options(dedupe_options INTERFACE -Wno-maybe-uninitialized)
endif()
