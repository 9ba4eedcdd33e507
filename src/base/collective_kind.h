#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kScatter,
  kGather,
  kAllToAll,
  kSendRecv,  // every rank sends to the next rank
};
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kBroadcast, CollectiveKind::kReduce,        CollectiveKind::kScatter,
    CollectiveKind::kGather,    CollectiveKind::kAllToAll,      CollectiveKind::kSendRecv};

// The kinds of collectives in step programs.
inline constexpr CollectiveKind kProgramCollectiveKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kBroadcast, CollectiveKind::kAllToAll};

// The kinds of collectives that a calibration measures: those in step programs, and the
// point-to-point messages of pipelines.
inline constexpr CollectiveKind kMeasuredCollectiveKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kBroadcast, CollectiveKind::kAllToAll,      CollectiveKind::kSendRecv};

// Returns the kind's name in files and output: all_reduce, reduce_scatter, all_gather, broadcast,
// reduce, scatter, gather, all_to_all or send_recv.
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
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kScatter:
      return "scatter";
    case CollectiveKind::kGather:
      return "gather";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kSendRecv:
      return "send_recv";
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
