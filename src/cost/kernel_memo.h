#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/base/kernel.h"
#include "src/cost/demand.h"

namespace stepcast::cost {

// Kernels that were priced on one device by one profile, and what came out. Numbers name entries as
// long as the memo lives.
class KernelMemo {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // The entry of a kernel that costs the same; kNone where there is none.
  std::uint32_t Find(const Kernel& kernel) const;
  // The kernel must not be there yet.
  std::uint32_t Add(const Kernel& kernel, const Demand& demand);

  const Demand& DemandOf(std::uint32_t entry) const { return entries_[entry].demand; }
  std::size_t size() const { return entries_.size(); }

 private:
  // All that a price depends on beside device and profile (kernel_price.h): not the name, and which
  // code issues the kernel only as far as it is a compiled graph's product.
  struct Key {
    std::uint32_t kind = 0;  // with layout, data type and the generation of attention
    std::int64_t batch = 0, m = 0, n = 0, k = 0, flops = 0, read = 0, written = 0;
    std::int64_t summed_tokens = 0, summed_columns = 0;
    Access access = Access::kPlain;
    bool causal = true;
    std::int64_t together = 1;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    Key key;
    Demand demand;
  };

  static Key KeyOf(const Kernel& kernel) {
    const bool compiled = kernel.kind == KernelKind::kGemm && kernel.issuer == Issuer::kFramework;
    return {.kind = static_cast<std::uint32_t>(compiled) << 31 |
                    static_cast<std::uint32_t>(kernel.adds_to_fp32) << 30 |
                    static_cast<std::uint32_t>(kernel.layout) << 24 |
                    static_cast<std::uint32_t>(kernel.kind) << 16 |
                    static_cast<std::uint32_t>(kernel.data_type) << 8 | kernel.flash,
            .batch = kernel.batch,
            .m = kernel.m,
            .n = kernel.n,
            .k = kernel.k,
            .flops = kernel.flops,
            .read = kernel.read.count(),
            .written = kernel.written.count(),
            .summed_tokens = kernel.summed_tokens,
            .summed_columns = kernel.summed_columns,
            .access = kernel.access,
            .causal = kernel.causal,
            .together = kernel.together};
  }

  std::vector<Entry> entries_;
  std::unordered_map<Key, std::uint32_t, Hash> numbers_;
};

}  // namespace stepcast::cost
