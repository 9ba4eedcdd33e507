#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/nccl/terms.h"

// The user's restrictions of NCCL, in the syntax of NCCL_ALGO and NCCL_PROTO (NCCL's user guide,
// "Environment Variables"):
//
//  NCCL_ALGO="ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring"
//  NCCL_PROTO="^LL128;allreduce:LL128"
//
// Semicolons separate lists. A list contains names, separated by commas and case-insensitive; a
// leading ^ excludes the listed names and allows all others. Every list except the first begins
// with the name of a function. A list without a function applies to all functions. Later lists
// replace earlier lists.
namespace stepcast::nccl {

template <typename Enumerator, std::size_t n>
class AllowedByFunction {
 public:
  // Returns whether no list applies to the function. NCCL's own rules then apply.
  bool is_default(Function function) const { return !lists_[Index(function)].has_value(); }
  bool allows(Function function, Enumerator value) const {
    const std::optional<std::bitset<n>>& list = lists_[Index(function)];
    return !list || list->test(static_cast<std::size_t>(value));
  }
  void Set(Function function, std::bitset<n> values) { lists_[Index(function)] = values; }

 private:
  static constexpr std::size_t Index(Function function) {
    return static_cast<std::size_t>(function);
  }
  std::array<std::optional<std::bitset<n>>, kFunctions.size()> lists_;
};

using AllowedAlgorithms = AllowedByFunction<Algorithm, kAlgorithms.size()>;
using AllowedProtocols = AllowedByFunction<Protocol, kProtocols.size()>;

struct Overrides {
  AllowedAlgorithms algorithms;
  AllowedProtocols protocols;
};

// Parse the user's restrictions. `location` is the position of the start of `text`. Each mistake is
// reported at its column: nccl.unknown-algorithm, nccl.unknown-protocol, nccl.unknown-function,
// nccl.list-without-function.
Result<AllowedAlgorithms> ParseAlgorithms(std::string_view text, const Location& location);
Result<AllowedProtocols> ParseProtocols(std::string_view text, const Location& location);

}  // namespace stepcast::nccl
