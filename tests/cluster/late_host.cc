// A late host. Preloaded into a rank, this library makes each lock that the program takes in its
// main thread last LATE_HOST_US microseconds longer, so each call to a stream does.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using LockMutex = int (*)(pthread_mutex_t*);

LockMutex lock_mutex = nullptr;
long delay_us = 0;
std::uintptr_t program_begin = 0, program_end = 0;

// Finds the code of the first object, which is the program. Locks that libraries take are not
// delayed.
int FindProgram(dl_phdr_info* info, std::size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    program_begin = info->dlpi_addr + header.p_vaddr;
    program_end = program_begin + header.p_memsz;
  }
  return 1;
}

__attribute__((constructor)) void Start() {
  lock_mutex = reinterpret_cast<LockMutex>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (const char* const text = std::getenv("LATE_HOST_US")) delay_us = std::atol(text);
  dl_iterate_phdr(FindProgram, nullptr);
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  if (delay_us > 0 && caller >= program_begin && caller < program_end &&
      syscall(SYS_gettid) == getpid()) {
    const timespec delay{delay_us / 1'000'000, delay_us % 1'000'000 * 1000};
    nanosleep(&delay, nullptr);
  }
  return lock_mutex == nullptr ? 0 : lock_mutex(mutex);
}
