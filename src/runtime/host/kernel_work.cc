#include "src/runtime/host/kernel_work.h"

#include <cblas.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "fmt/format.h"
#include "src/runtime/values/random_values.h"

namespace stepcast::runtime::host {
namespace {

// The shape of the products that replace attention: a fused kernel's block with head dimension 64.
constexpr int kBlockM = 128, kBlockN = 128, kBlockK = 64;

struct Need {
  std::int64_t operands = 0;  // floats
  std::int64_t results = 0;
};

std::int64_t Floats(Bytes bytes) { return (bytes.count() + 3) / 4; }

Need NeedOf(const Kernel& kernel) {
  switch (kernel.kind) {
    case KernelKind::kGemm:
      return {kernel.m * kernel.k + kernel.k * kernel.n, kernel.m * kernel.n};
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      return {kBlockM * kBlockK + kBlockK * kBlockN, kBlockM * kBlockN};
    case KernelKind::kMemoryBound:
    case KernelKind::kOptimizer:
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      return {Floats(std::min(kernel.read, KernelWork::kWindow)),
              Floats(std::min(kernel.written, KernelWork::kWindow))};
    case KernelKind::kGiven:
      break;
  }
  return {};
}

bool TooLarge(const Kernel& kernel) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return kernel.m > kMost || kernel.n > kMost || kernel.k > kMost;
}

}  // namespace

Attempt<KernelWork> KernelWork::Make(const program::Program& program, Bytes limit,
                                     std::uint64_t seed) {
  KernelWork work;
  Need largest;
  const Kernel* neediest = nullptr;
  work.results_.assign(program.streams.size(), 0);
  bool products = false;
  for (const auto* part : {&program.prologue, &program.step}) {
    for (const program::Instruction& instruction : *part) {
      Need need;
      if (instruction.opcode == program::Opcode::kKernel) {
        const Kernel& kernel = program.kernels[instruction.operand];
        if (kernel.kind == KernelKind::kGemm && TooLarge(kernel)) {
          return tl::unexpected(
              Failure{fmt::format("the sizes of the matrix multiplication '{}', {} x {} x {}, are "
                                  "too large for the 32-bit integers of OpenBLAS",
                                  kernel.name, kernel.m, kernel.n, kernel.k)});
        }
        need = NeedOf(kernel);
        products = products || kernel.kind == KernelKind::kGemm ||
                   kernel.kind == KernelKind::kAttention ||
                   kernel.kind == KernelKind::kAttentionGradient;
        if (neediest == nullptr ||
            need.operands + need.results > NeedOf(*neediest).operands + NeedOf(*neediest).results) {
          neediest = &kernel;
        }
      } else if (instruction.opcode == program::Opcode::kCopy) {
        const Bytes bytes = std::min(program.copies[instruction.operand].bytes, kWindow);
        need = {Floats(bytes), Floats(bytes)};
      }
      largest.operands = std::max(largest.operands, need.operands);
      std::int64_t& results = work.results_[instruction.stream];
      results = std::max(results, need.results);
    }
  }
  if (products) {
    STEPCAST_TAKE(work.blas_, Blas::Load());
  }

  // Rounds up to cache lines, so that no two streams share one.
  const auto aligned = [](std::int64_t floats) { return (floats + 15) / 16 * 16; };
  work.operands_ = aligned(largest.operands);
  std::int64_t total = work.operands_;
  for (std::int64_t& results : work.results_) {
    results = aligned(results);
    work.first_result_.push_back(total);
    total += results;
  }
  if (total == 0) return work;
  work.size_ = Bytes(total * 4);
  const auto refuse = [&](const std::string& why) {
    return tl::unexpected(Failure{
        fmt::format("out of memory: operands and results of kernels need {} bytes, most of them "
                    "for '{}': {}",
                    work.size_.count(), neediest == nullptr ? "copies" : neediest->name, why),
        true});
  };
  if (work.size_ > limit) {
    auto refused = refuse(fmt::format("{} bytes are free", limit.count()));
    work.size_ = Bytes(0);
    return refused;
  }
  void* memory = mmap(nullptr, static_cast<std::size_t>(total) * 4, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return refuse("the system has no more memory");
  work.memory_ = static_cast<float*>(memory);
  const std::uint32_t hash = values::SeedHash(seed);
  // The numbers repeat with a prime period, so that no two rows of a matrix are alike. To generate
  // each number would take seconds per gigabyte, and the run would seem to hang.
  constexpr std::int64_t kNumbers = 1'048'573;
  const std::int64_t made = std::min(total, kNumbers);
  for (std::int64_t i = 0; i < made; ++i) work.memory_[i] = values::RandomOperand(hash, i);
  for (std::int64_t at = made; at < total; at += made) {
    std::memcpy(work.memory_ + at, work.memory_,
                static_cast<std::size_t>(std::min(made, total - at)) * sizeof(float));
  }
  return work;
}

KernelWork::KernelWork(KernelWork&& other) noexcept
    : blas_(other.blas_),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(other.size_),
      operands_(other.operands_),
      first_result_(std::move(other.first_result_)),
      results_(std::move(other.results_)) {}

KernelWork::~KernelWork() {
  if (memory_ != nullptr) munmap(memory_, static_cast<std::size_t>(size_.count()));
}

const float* KernelWork::Multiply(const Kernel& kernel, std::uint16_t stream) const {
  const float* a = memory_;
  const float* b = memory_ + kernel.m * kernel.k;
  float* c = memory_ + first_result_[stream];
  for (std::int64_t product = 0; product < kernel.batch; ++product) {
    blas_->Multiply(static_cast<int>(kernel.m), static_cast<int>(kernel.n),
                    static_cast<int>(kernel.k), a, b, c);
  }
  return c;
}

void KernelWork::Attend(const Kernel& kernel, std::uint16_t stream) const {
  constexpr std::int64_t kFlops = std::int64_t{2} * kBlockM * kBlockN * kBlockK;
  float* c = memory_ + first_result_[stream];
  for (std::int64_t done = 0; done < kernel.flops; done += kFlops) {
    blas_->Multiply(kBlockM, kBlockN, kBlockK, memory_, memory_ + kBlockM * kBlockK, c);
  }
}

void KernelWork::MoveBytes(Bytes read, Bytes written, std::uint16_t stream) const {
  // Bytes that are both read and written are copied; the rest is summed or filled. A window is at
  // least the shorter of kWindow and the largest kernel of this stream.
  const auto* source = reinterpret_cast<const char*>(memory_);
  auto* target = reinterpret_cast<char*>(memory_ + first_result_[stream]);
  const std::int64_t source_window = std::min(operands_ * 4, kWindow.count());
  const std::int64_t target_window = std::min(results_[stream] * 4, kWindow.count());
  const std::int64_t both = std::min(source_window, target_window);
  std::int64_t left_to_read = read.count();
  std::int64_t left_to_write = written.count();
  while (left_to_read > 0 && left_to_write > 0 && both > 0) {
    const std::int64_t bytes = std::min({left_to_read, left_to_write, both});
    std::memcpy(target, source, static_cast<std::size_t>(bytes));
    left_to_read -= bytes;
    left_to_write -= bytes;
  }
  std::uint64_t sum = 0;
  while (left_to_read > 0 && source_window > 0) {
    const std::int64_t bytes = std::min(left_to_read, source_window);
    const auto* words = reinterpret_cast<const std::uint32_t*>(memory_);
    for (std::int64_t i = 0; i < bytes / 4; ++i) sum += words[i];
    left_to_read -= bytes;
  }
  while (left_to_write > 0 && target_window > 0) {
    const std::int64_t bytes = std::min(left_to_write, target_window);
    std::memset(target, 0x3e, static_cast<std::size_t>(bytes));
    left_to_write -= bytes;
  }
  // Keeps the compiler from removing the reads.
  asm volatile("" : : "r"(sum) : "memory");
}

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
      return tl::unexpected(Failure{
          std::string("matrix multiplications on the CPU need OpenBLAS (package libopenblas0): ") +
          dlerror()});
    }
    Blas blas;
    blas.sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    blas.config_ = reinterpret_cast<Text>(dlsym(library, "openblas_get_config"));
    blas.core_ = reinterpret_cast<Text>(dlsym(library, "openblas_get_corename"));
    if (blas.sgemm_ == nullptr || blas.config_ == nullptr || blas.core_ == nullptr) {
      return tl::unexpected(Failure{std::string(kLibrary) + " is not a complete OpenBLAS library"});
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
