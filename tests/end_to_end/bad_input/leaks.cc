// What LeakSanitizer is not to report here.
//
// A client whose TLS handshake fails leaves an entry in OpenSSL's error queue
// of the thread it ran on. The threads are gRPC's, which still run at the end
// of the program, so nobody frees their queues. Named by the library, because
// the stack ends there.

// The sanitizer's own name for it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libcrypto.so.3\n";
}
