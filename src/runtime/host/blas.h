#pragma once

#include <string>

#include "src/runtime/device.h"

// Matrix products by OpenBLAS, loaded when it is first asked for: stepcast starts without it, and
// the kernels that it takes are settled while it is loaded. OpenBLAS chooses them by the CPU's
// model and falls back to very old ones for a model that is newer than itself; Load corrects that
// by what the CPU can do, unless OPENBLAS_CORETYPE is set.
namespace stepcast::runtime::host {

class Blas {
 public:
  // The library, on one thread for each call. Fails when there is none. The first call may change
  // the environment, so it comes before other threads; any thread may make the others.
  static Attempt<const Blas*> Load();

  // c = a b, all row-major and dense: a is m x k, b is k x n. Any number of threads at once.
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
