// Measures, in less than a minute, GPU properties on which stepcast's measurements depend. They are
// the cost of events, queries and launches, the difference between cuBLASLt's first and best
// algorithm, the decline of product rates as the GPU warms up, and the effects of zeros and of the
// cache. The output is for people.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/time.h"
#include "src/runtime/cuda/synthetic_kernels.h"

namespace stepcast::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

template <typename Status>
void Must(Status status, const char* doing) {
  if (static_cast<int>(status) == 0) return;
  std::printf("%s failed: %d\n", doing, static_cast<int>(status));
  std::exit(1);
}

double Microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

struct Events {
  cudaEvent_t begin = nullptr, end = nullptr;
  Events() {
    Must(cudaEventCreate(&begin), "making an event");
    Must(cudaEventCreate(&end), "making an event");
  }
  double Microseconds() const {
    float milliseconds = 0;
    Must(cudaEventElapsedTime(&milliseconds, begin, end), "reading a time");
    return 1e3 * milliseconds;
  }
};

class Probe {
 public:
  Probe() {
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    Must(cudaMalloc(&input_, kArena), "allocating operands");
    Must(cudaMalloc(&output_, kOutput), "allocating a result");
    Must(cudaMalloc(&workspace_, kWorkspace), "allocating a workspace");
    Must(cublasLtCreate(&handle_), "starting cuBLASLt");
    Randomise();
    Tiny();
    Must(Spin(Time(), nullptr, stream_), "waiting");
    Must(cudaStreamSynchronize(stream_), "making operands");
  }

  void Launches() {
    constexpr int kKernels = 400;
    std::vector<cudaEvent_t> events(2 * kKernels);
    const auto creating = Clock::now();
    for (cudaEvent_t& event : events) Must(cudaEventCreate(&event), "making an event");
    std::printf("cudaEventCreate            %6.2f us\n",
                Microseconds(creating) / static_cast<double>(events.size()));
    for (int each = 0; each <= 2; ++each) {
      double apart = 0;
      double issue = 0;
      // The first run loads the code.
      for (int time = 0; time < 2; ++time) {
        Must(Spin(Milliseconds(20), nullptr, stream_), "waiting");
        Must(cudaEventRecord(whole_.begin, stream_), "timing");
        const auto issuing = Clock::now();
        for (int i = 0; i < kKernels; ++i) {
          if (each > 1) Must(cudaEventRecord(events[2 * i], stream_), "timing");
          Tiny();
          if (each > 0) Must(cudaEventRecord(events[2 * i + 1], stream_), "timing");
        }
        issue = Microseconds(issuing) / kKernels;
        Must(cudaEventRecord(whole_.end, stream_), "timing");
        Must(cudaStreamSynchronize(stream_), "running tiny kernels");
        apart = whole_.Microseconds() / kKernels;
      }
      std::printf("tiny kernels, %d events each %5.2f us apart on the GPU, %.2f us to issue\n",
                  each, apart, issue);
    }
    Must(Spin(Milliseconds(5), nullptr, stream_), "waiting");
    Must(cudaEventRecord(whole_.end, stream_), "timing");
    const auto asking = Clock::now();
    for (int i = 0; i < 500; ++i) {
      static_cast<void>(cudaEventQuery(whole_.end));
      static_cast<void>(cudaGetLastError());
    }
    std::printf("cudaEventQuery, not ready  %6.2f us\n", Microseconds(asking) / 500);
    Must(cudaStreamSynchronize(stream_), "waiting");
  }

  void Products() {
    for (const std::int64_t size : {std::int64_t{1024}, std::int64_t{4096}, std::int64_t{8192}}) {
      Cube cube(*this, size);
      const double warm = Rate(cube, 0, 20, 0);
      const double cold = Rate(cube, 0, 20, kArena / 8);
      double best = cold;
      for (int a = 1; a < cube.algorithms(); ++a)
        best = std::max(best, Rate(cube, a, 10, kArena / 8));
      std::printf(
          "%5lld^3 bf16  same operands %4.0f, others each time %4.0f TFLOP/s; best of %d "
          "algorithms %4.0f\n",
          static_cast<long long>(size), warm, cold, cube.algorithms(), best);
    }
    Cube cube(*this, 8192);
    std::printf("8192^3 bf16, TFLOP/s second by second:");
    const auto begin = Clock::now();
    for (int second = 1; second <= 12; ++second) {
      double rate = 0;
      while (Microseconds(begin) < 1e6 * second) rate = Rate(cube, 0, 20, kArena / 8);
      std::printf(" %.0f", rate);
      std::fflush(stdout);
    }
    Must(cudaMemsetAsync(input_, 0, kArena, stream_), "setting operands to zero");
    std::printf("\n8192^3 bf16 of zeros: %.0f\n", Rate(cube, 0, 20, kArena / 8));
    Randomise();
  }

  void Traffic() {
    for (const std::int64_t mib : {4, 16, 64, 256}) {
      double rates[2] = {};
      for (const bool moving : {false, true}) {
        constexpr int kTimes = 20;
        Must(Spin(Milliseconds(2), nullptr, stream_), "waiting");
        Must(cudaEventRecord(whole_.begin, stream_), "timing");
        for (int i = 0; i < kTimes; ++i) {
          Must(LaunchTraffic({.input = input_,
                              .input_size = Bytes(kArena),
                              .from = moving ? MiB(mib) * i : Bytes(0),
                              .read = MiB(mib),
                              .output = output_,
                              .output_size = Bytes(kOutput),
                              .to = moving ? MiB(mib) * i : Bytes(0),
                              .written = MiB(mib)},
                             stream_),
               "moving bytes");
        }
        Must(cudaEventRecord(whole_.end, stream_), "timing");
        Must(cudaStreamSynchronize(stream_), "moving bytes");
        rates[moving ? 1 : 0] =
            2e-6 * kTimes * static_cast<double>(MiB(mib).count()) / whole_.Microseconds();
      }
      std::printf("%3lld MiB read and written: the same %.2f, others each time %.2f TB/s\n",
                  static_cast<long long>(mib), rates[0], rates[1]);
    }
  }

  // Like operations that move more than an arena holds: starts again at its beginning.
  void Wrapping() {
    constexpr std::int64_t kMib = 1024;
    constexpr int kTimes = 10;
    for (const std::int64_t arena : {128, 192, 256, 384, 512}) {
      double rates[2] = {};
      for (const bool writing : {false, true}) {
        Must(Spin(Milliseconds(2), nullptr, stream_), "waiting");
        Must(cudaEventRecord(whole_.begin, stream_), "timing");
        for (int i = 0; i < kTimes; ++i) {
          Must(LaunchTraffic({.input = input_,
                              .input_size = MiB(arena),
                              .from = Bytes(0),
                              .read = MiB(kMib),
                              .output = output_,
                              .output_size = MiB(arena),
                              .to = Bytes(0),
                              .written = writing ? MiB(kMib) : Bytes(0)},
                             stream_),
               "moving bytes");
        }
        Must(cudaEventRecord(whole_.end, stream_), "timing");
        Must(cudaStreamSynchronize(stream_), "moving bytes");
        rates[writing ? 1 : 0] = 1e-6 * (writing ? 2 : 1) * kTimes *
                                 static_cast<double>(MiB(kMib).count()) / whole_.Microseconds();
      }
      std::printf("1 GiB in an arena of %3lld MiB: read %.2f, read and written %.2f TB/s\n",
                  static_cast<long long>(arena), rates[0], rates[1]);
    }
  }

 private:
  static constexpr std::int64_t kArena = std::int64_t{2} << 30;
  static constexpr std::int64_t kOutput = std::int64_t{1} << 29;
  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;

  // A product of cubes, like a linear layer's forward.
  class Cube {
   public:
    Cube(const Probe& probe, std::int64_t size) : probe_(probe), size_(size) {
      const cublasOperation_t turned = CUBLAS_OP_T;
      Must(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
      Must(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                          sizeof turned),
           "a product");
      const auto length = static_cast<std::uint64_t>(size);
      Must(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_16BF, length, length, size), "a matrix");
      cublasLtMatmulPreference_t preference = nullptr;
      const std::uint64_t workspace = kWorkspace;
      Must(cublasLtMatmulPreferenceCreate(&preference), "a product");
      Must(cublasLtMatmulPreferenceSetAttribute(
               preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
           "a product");
      constexpr int kMost = 8;
      found_.resize(kMost);
      int count = 0;
      Must(cublasLtMatmulAlgoGetHeuristic(probe.handle_, operation_, layout_, layout_, layout_,
                                          layout_, preference, kMost, found_.data(), &count),
           "looking for algorithms");
      found_.resize(static_cast<std::size_t>(count));
      cublasLtMatmulPreferenceDestroy(preference);
    }
    int algorithms() const { return static_cast<int>(found_.size()); }
    double flops() const { return 2.0 * static_cast<double>(size_ * size_ * size_); }
    void Run(int algorithm, std::int64_t at) const {
      const float scale = 1e-4f;
      const float keep = 0;
      const std::byte* first = probe_.input_ + at;
      Must(
          cublasLtMatmul(probe_.handle_, operation_, &scale, first, layout_,
                         first + 2 * size_ * size_, layout_, &keep, probe_.output_, layout_,
                         probe_.output_, layout_, &found_[static_cast<std::size_t>(algorithm)].algo,
                         probe_.workspace_, kWorkspace, probe_.stream_),
          "multiplying");
    }

   private:
    const Probe& probe_;
    std::int64_t size_;
    cublasLtMatmulDesc_t operation_ = nullptr;
    cublasLtMatrixLayout_t layout_ = nullptr;
    std::vector<cublasLtMatmulHeuristicResult_t> found_;
  };

  void Randomise() {
    Must(FillRandom(input_, Bytes(kArena), DataType::kBf16, 1, stream_), "making operands");
  }
  void Tiny() {
    Must(StampTime(reinterpret_cast<std::uint64_t*>(output_), stream_), "launching a tiny kernel");
  }
  // TFLOP/s. Operands start `stride` bytes further each time, eight times at most.
  double Rate(const Cube& cube, int algorithm, int times, std::int64_t stride) {
    cube.Run(algorithm, 0);
    Must(Spin(Milliseconds(1), nullptr, stream_), "waiting");
    Must(cudaEventRecord(whole_.begin, stream_), "timing");
    for (int i = 0; i < times; ++i) cube.Run(algorithm, stride * (i % 7));
    Must(cudaEventRecord(whole_.end, stream_), "timing");
    Must(cudaStreamSynchronize(stream_), "multiplying");
    return 1e-6 * cube.flops() * times / whole_.Microseconds();
  }

  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  void* workspace_ = nullptr;
  Events whole_;
};

}  // namespace
}  // namespace stepcast::runtime::cuda

int main() {
  stepcast::runtime::cuda::Probe probe;
  probe.Launches();
  probe.Products();
  probe.Traffic();
  probe.Wrapping();
  return 0;
}
