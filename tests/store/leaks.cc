// What LeakSanitizer is not to report in the tests that lose connections.
//
// libpqxx 6.4 forgets to free the result of a statement whose connection was
// lost (216 bytes each): connection_base::exec_params asks for the client's
// encoding before anything owns it, and that throws.

// The sanitizer's own name for it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:pqxx::connection_base::exec_params\n";
}
