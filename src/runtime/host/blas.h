#pragma once

#include <string>

#include "src/runtime/device.h"

// Matrix products with OpenBLAS, which is loaded on first use; stepcast starts without it. OpenBLAS
// selects its kernels by CPU model while it is being loaded. For models newer than the library, it
// falls back to very old kernels. Load corrects this by the CPU's features, unless
// OPENBLAS_CORETYPE is set.
namespace stepcast::runtime::host {

class Blas {
 public:
  // The library, with one thread per call. Fails if it is not installed. The first call may change
  // the environment, so it must come before other threads; later calls are thread-safe.
  static Attempt<const Blas*> Load();

  // c = a b, all row-major and dense: a is m x k, b is k x n. Thread-safe.
  void Multiply(int m, int n, int k, const float* a, const float* b, float* c) const;

  // "OpenBLAS 0.3.21 ..., kernels SkylakeX"
  std::string Version() const;

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using Text = char* (*)();

  static Attempt<Blas> Open();

  Sgemm sgemm_ = nullptr;
  Text config_ = nullptr;
  Text core_ = nullptr;
};

}  // namespace stepcast::runtime::host
