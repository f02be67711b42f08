# dedupe_test(NAME SOURCES FILE... [LIBRARIES TARGET...]
#             LABELS unit|postgres|end_to_end... TIMEOUT SECONDS [NO_MAIN])
#
# A GoogleTest executable, known to ctest as one test of the same name, which
# leaves its results in test-results/NAME.xml of the build directory. NO_MAIN is
# for tests that bring their own main.
function(dedupe_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg
      "NO_MAIN" "TIMEOUT" "SOURCES;LIBRARIES;LABELS")
  foreach(required IN ITEMS SOURCES LABELS TIMEOUT)
    if(NOT arg_${required})
      message(FATAL_ERROR "dedupe_test(${name}): ${required} is missing")
    endif()
  endforeach()
  foreach(label IN LISTS arg_LABELS)
    if(NOT label MATCHES "^(unit|postgres|end_to_end)$")
      message(FATAL_ERROR "dedupe_test(${name}): unknown label ${label}")
    endif()
  endforeach()

  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE
      dedupe_options ${arg_LIBRARIES} GTest::gmock GTest::gtest)
  if(NOT arg_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gmock_main)
  endif()

  # Makes ThreadSanitizer understand the packaged Abseil; see the file.
  set(tsan_abseil "${PROJECT_SOURCE_DIR}/tests/support/tsan_abseil.cc")
  if(DEDUPE_SANITIZE STREQUAL "thread" AND EXISTS "${tsan_abseil}")
    target_sources(${name} PRIVATE "${tsan_abseil}")
    target_link_libraries(${name} PRIVATE absl::synchronization ${CMAKE_DL_LIBS})
  endif()

  # Made here, because GoogleTest crashes where it is missing.
  set(results "${CMAKE_BINARY_DIR}/test-results")
  file(MAKE_DIRECTORY "${results}")
  add_test(NAME ${name}
           COMMAND ${name} "--gtest_output=xml:${results}/${name}.xml")
  set(environment
      "DEDUPE_BUILD_DIR=${CMAKE_BINARY_DIR}"
      "DEDUPE_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
      # GoogleTest keeps this file for as long as it has not finished, which
      # tells a test that called exit(0) midway from one that passed.
      "TEST_PREMATURE_EXIT_FILE=${results}/${name}.unfinished")
  if(DEDUPE_SANITIZE)
    list(APPEND environment
         "ASAN_OPTIONS=strict_string_checks=1:check_initialization_order=1"
         "UBSAN_OPTIONS=print_stacktrace=1"
         "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
  endif()
  set_tests_properties(${name} PROPERTIES
      ENVIRONMENT "${environment}"
      LABELS "${arg_LABELS}"
      TIMEOUT ${arg_TIMEOUT})
endfunction()
