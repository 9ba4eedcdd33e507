#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/kernel.h"
#include "src/program/program.h"
#include "src/runtime/device.h"

// The work of kernels on a CPU, in separately allocated memory. Activations are arbitrary nonzero
// random numbers.
//   GEMMs: OpenBLAS GEMMs of the kernel's shape; the GEMMs of a batch run one by one
//   attention: GEMMs of blocks, with the same number of floating-point operations
//   memory-bound: reads and writes of the same number of bytes
// The CPU computes in FP32 for every data type, so a bf16 GEMM reads and writes twice its bytes.
// Memory-bound kernels read and write their stated number of bytes.
namespace stepcast::runtime::host {

// GEMMs with OpenBLAS, which is loaded at first use. OpenBLAS selects its kernels by CPU model when
// it is loaded. For CPU models newer than the library, it selects very old kernels. Unless
// OPENBLAS_CORETYPE is set, Load therefore selects kernels by the CPU's features.
class Blas {
 public:
  // Returns the library, with one thread per call. Fails if OpenBLAS is not installed. The first
  // call may change the environment, so it must precede the creation of other threads. Later calls
  // are thread-safe.
  static Attempt<const Blas*> Load();

  // Computes c = a b, where all matrices are row-major and dense: a is m x k, b is k x n.
  // Thread-safe.
  void Multiply(int m, int n, int k, const float* a, const float* b, float* c) const;

  // Returns the version as text, such as "OpenBLAS 0.3.21 ..., kernels SkylakeX".
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

// The memory and work of kernels whose operands are not in buffers of the program. Streams share
// the operands and have separate results. The largest GEMM determines the size of the memory.
// Memory-bound kernels cycle through at most kWindow bytes of this memory, which is more than the
// caches hold.
class KernelWork {
 public:
  static constexpr Bytes kWindow = MiB(64);

  // Allocates the memory. If the operands do not fit into `limit` or into the system's memory,
  // returns an out-of-memory error with the name of the kernel. Loads OpenBLAS only if the program
  // has GEMMs.
  static Attempt<KernelWork> Make(const program::Program& program, Bytes limit, std::uint64_t seed);

  KernelWork(KernelWork&& other) noexcept;
  KernelWork& operator=(KernelWork&&) = delete;
  ~KernelWork();

  // Runs the GEMMs of a kGemm kernel. Returns the last result, which has m x n floats.
  const float* Multiply(const Kernel& kernel, std::uint16_t stream) const;
  // Runs a kernel of kind kAttention or kAttentionGradient.
  void Attend(const Kernel& kernel, std::uint16_t stream) const;
  // Reads `read` bytes of memory and writes `written` bytes.
  void MoveBytes(Bytes read, Bytes written, std::uint16_t stream) const;

  Bytes size() const { return size_; }

 private:
  KernelWork() = default;

  const Blas* blas_ = nullptr;
  float* memory_ = nullptr;  // operands, then each stream's results
  Bytes size_;
  std::int64_t operands_ = 0;               // floats
  std::vector<std::int64_t> first_result_;  // [stream]: offset in memory_, in floats
  std::vector<std::int64_t> results_;       // [stream]: size in floats
};

}  // namespace stepcast::runtime::host
