#include "src/runtime/host/blas.h"

#include <cblas.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace stepcast::runtime::host {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// The kernels for this CPU, if OpenBLAS chose those of a CPU without AVX; null if its choice is
// right.
const char* BetterCore(std::string_view chosen) {
#if defined(__x86_64__)
  for (const char* old : {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Atom",
                          "Northwood", "Katmai", "Coppermine", "Banias", "Generic"}) {
    if (chosen != old) continue;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
  }
#else
  (void)chosen;
#endif
  return nullptr;
}

}  // namespace

Attempt<Blas> Blas::Open() {
  static_assert(std::is_same_v<blasint, int>, "OpenBLAS with 32-bit dimensions");
  // Each stream computes on its own thread, so OpenBLAS must not start threads.
  if (const char* const threads = std::getenv("OPENBLAS_NUM_THREADS");
      threads == nullptr || std::string_view(threads) != "1") {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
  }
  for (bool again = false;; again = true) {
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return tl::unexpected(
          Failure{std::string("matrix products on the CPU need OpenBLAS (package libopenblas0): ") +
                  dlerror()});
    }
    Blas blas;
    blas.sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    blas.config_ = reinterpret_cast<Text>(dlsym(library, "openblas_get_config"));
    blas.core_ = reinterpret_cast<Text>(dlsym(library, "openblas_get_corename"));
    if (blas.sgemm_ == nullptr || blas.config_ == nullptr || blas.core_ == nullptr) {
      return tl::unexpected(Failure{std::string(kLibrary) + " is not the OpenBLAS it should be"});
    }
    const char* better = BetterCore(blas.core_());
    if (again || better == nullptr || std::getenv(kCoreVariable) != nullptr) return blas;
    dlclose(library);
    setenv(kCoreVariable, better, 1);
  }
}

Attempt<const Blas*> Blas::Load() {
  static const Attempt<Blas> blas = Open();
  if (!blas) return tl::unexpected(blas.error());
  return &*blas;
}

void Blas::Multiply(int m, int n, int k, const float* a, const float* b, float* c) const {
  sgemm_(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
}

std::string Blas::Version() const { return std::string(config_()) + ", kernels " + core_(); }

}  // namespace stepcast::runtime::host
