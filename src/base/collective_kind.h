#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast {

enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kBroadcast};

// The names of files and output: all_reduce, reduce_scatter, all_gather, broadcast.
constexpr std::string_view Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kBroadcast:
      return "broadcast";
  }
  return "";
}

constexpr std::optional<CollectiveKind> CollectiveKindFromName(std::string_view name) {
  for (CollectiveKind kind : kCollectiveKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace stepcast
