// What LeakSanitizer is not to report in the tests that lose connections.
//
// libpqxx 6.4 forgets to free the result of a statement whose connection was
// lost: exec and exec_params ask for the client's encoding before anything owns
// the result, and that throws. Named by its library, because the stack of some
// of these ends there.

// The sanitizer's own name for it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpqxx-6.4.so\n";
}
