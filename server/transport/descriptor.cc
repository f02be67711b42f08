#include "server/transport/descriptor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace dedupe {

void Descriptor::Close() {
  // Not repeated after EINTR: Linux has closed it then.
  if (valid()) close(Release());
}

int RaiseDescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t soft = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  // The kernel may have been told to allow less than the hard limit says.
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = soft;
  return static_cast<int>(
      std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

}  // namespace dedupe
