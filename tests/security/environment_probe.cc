#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstdio>
#include <cstring>

// A library preloaded into stepcast. It prints on stderr the number of threads when the program
// itself (not a library) changes a variable or loads OpenBLAS. It also makes OpenBLAS report
// kernels of a CPU without AVX, so that stepcast selects others.
//
//   probe: setenv OPENBLAS_CORETYPE, threads 1
namespace {

template <typename Function>
Function Real(const char* name, const char* version = nullptr) {
  static void* (*const versioned)(void*, const char*, const char*) = ::dlvsym;
  void* found = version == nullptr ? nullptr : versioned(RTLD_NEXT, name, version);
  return reinterpret_cast<Function>(found);
}

bool OfTheProgram(const void* caller) {
  Dl_info own{};
  Dl_info calling{};
  const void* const headers = reinterpret_cast<const void*>(::getauxval(AT_PHDR));
  return ::dladdr(headers, &own) != 0 && ::dladdr(caller, &calling) != 0 &&
         own.dli_fbase == calling.dli_fbase;
}

void Say(const char* what, const char* name, const void* caller) {
  if (!OfTheProgram(caller)) return;
  int threads = 0;
  if (DIR* const tasks = ::opendir("/proc/self/task")) {
    while (const dirent* const entry = ::readdir(tasks)) threads += entry->d_name[0] != '.' ? 1 : 0;
    ::closedir(tasks);
  }
  std::fprintf(stderr, "probe: %s %s, threads %d\n", what, name, threads);
}

char* OldCore() {
  static char core[] = "Prescott";
  return core;
}

}  // namespace

extern "C" {

int setenv(const char* name, const char* value, int overwrite) {
  Say("setenv", name, __builtin_return_address(0));
  static const auto real = Real<int (*)(const char*, const char*, int)>("setenv", "GLIBC_2.2.5");
  return real(name, value, overwrite);
}

void* dlopen(const char* file, int mode) {
  if (file != nullptr && std::strstr(file, "openblas") != nullptr) {
    Say("dlopen", file, __builtin_return_address(0));
  }
  static const auto real = Real<void* (*)(const char*, int)>("dlopen", "GLIBC_2.34");
  return real(file, mode);
}

void* dlsym(void* library, const char* name) {
  if (std::strcmp(name, "openblas_get_corename") == 0) return reinterpret_cast<void*>(OldCore);
  static const auto real = Real<void* (*)(void*, const char*)>("dlsym", "GLIBC_2.34");
  return real(library, name);
}

}  // extern "C"
