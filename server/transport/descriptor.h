// File descriptors: one that is owned, and how many there may be.
#ifndef DEDUPE_SERVER_TRANSPORT_DESCRIPTOR_H_
#define DEDUPE_SERVER_TRANSPORT_DESCRIPTOR_H_

#include <utility>

namespace dedupe {

// Closed by the destructor. Not thread-safe.
class Descriptor {
 public:
  Descriptor() = default;
  // Negative: none.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = other.Release();
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Close();

 private:
  int fd_ = -1;
};

// Raises the soft limit of this process to the hard one and returns how many
// descriptors it may have now.
int RaiseDescriptorLimit();

}  // namespace dedupe

#endif  // DEDUPE_SERVER_TRANSPORT_DESCRIPTOR_H_
