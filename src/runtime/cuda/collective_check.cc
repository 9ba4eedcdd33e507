#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/program/data_flow.h"
#include "src/runtime/cuda/communicators.h"
#include "src/runtime/cuda/failure.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::cuda {
namespace {

constexpr std::int64_t kPerRank = 1000;

// -1, 0 or 1: sums over up to 256 ranks are exact in every type.
float Given(int member, std::int64_t i) { return static_cast<float>((i + member) % 3 - 1); }

float Sum(std::int64_t i, int ranks) {
  float sum = 0;
  for (int member = 0; member < ranks; ++member) sum += Given(member, i);
  return sum;
}

// Frees at the end of a scope.
struct DeviceArray {
  void* at = nullptr;
  ~DeviceArray() { cudaFree(at); }
};

}  // namespace

std::vector<float> CheckedSource(const program::Collective& collective, int member, int ranks) {
  const program::CollectiveParts parts = program::PartsOf(collective.kind, kPerRank * ranks, ranks);
  std::vector<float> values(static_cast<std::size_t>(parts.sent));
  for (std::int64_t i = 0; i < parts.sent; ++i) values[i] = Given(member, i);
  return values;
}

std::vector<float> CheckedTarget(const program::Collective& collective, int member, int ranks) {
  const program::CollectiveParts parts = program::PartsOf(collective.kind, kPerRank * ranks, ranks);
  const float share = collective.average ? 1.0f / static_cast<float>(ranks) : 1.0f;
  std::vector<float> values(static_cast<std::size_t>(parts.received));
  for (std::int64_t i = 0; i < parts.received; ++i) {
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        values[i] = Sum(i, ranks) * share;
        break;
      case CollectiveKind::kReduceScatter:
        values[i] = Sum(member * kPerRank + i, ranks) * share;
        break;
      case CollectiveKind::kAllGather:
        values[i] = Given(static_cast<int>(i / kPerRank), i % kPerRank);
        break;
      case CollectiveKind::kBroadcast:
        values[i] = Given(collective.root, i);
        break;
      case CollectiveKind::kAllToAll: {
        const int sender = program::AllToAllSender(member, static_cast<int>(i / kPerRank), ranks);
        // Elements that are not sent stay zero.
        const bool sent = i % kPerRank < ElementsSent(collective.loads, kPerRank,
                                                      collective.data_type, sender, member);
        values[i] = sent ? Given(sender, i) : 0.0f;
        break;
      }
      default:
        STEPCAST_CHECK(false, "a step program must contain only supported collectives");
    }
  }
  return values;
}

std::vector<float> Widened(std::span<const std::byte> bytes, DataType type) {
  return values::WithStorageType(type, [&](auto kind) {
    using T = decltype(kind);
    std::vector<float> values(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      T stored;
      std::memcpy(&stored, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = values::ToFp32(stored);
    }
    return values;
  });
}

std::vector<std::byte> Narrowed(std::span<const float> values, DataType type) {
  return values::WithStorageType(type, [&](auto kind) {
    using T = decltype(kind);
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T stored = values::FromFp32<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &stored, sizeof(T));
    }
    return bytes;
  });
}

Attempt<void> CheckCollective(const program::Program& program,
                              const program::Collective& collective, int rank,
                              Communicators& communicators, cudaStream_t stream) {
  if (collective.data_type == DataType::kFp8) return {};
  const program::Communicator& communicator = program.communicators[collective.communicator];
  const auto ranks = static_cast<int>(program.groups[communicator.group].ranks.size());
  const int member = RankInGroup(program, collective.communicator, rank);
  if (member < 0) return {};
  const std::vector<std::byte> given =
      Narrowed(CheckedSource(collective, member, ranks), collective.data_type);
  const std::vector<float> expected = CheckedTarget(collective, member, ranks);
  std::vector<std::byte> got(expected.size() *
                             static_cast<std::size_t>(SizeOf(collective.data_type)));

  const char* doing = "checking collectives";
  DeviceArray source, target;
  STEPCAST_TRY(Check(cudaMalloc(&source.at, given.size()), doing));
  STEPCAST_TRY(Check(cudaMalloc(&target.at, got.size()), doing));
  STEPCAST_TRY(
      Check(cudaMemcpyAsync(source.at, given.data(), given.size(), cudaMemcpyHostToDevice, stream),
            doing));
  STEPCAST_TRY(Check(cudaMemsetAsync(target.at, 0, got.size(), stream), doing));
  STEPCAST_TRY(communicators.Part(collective, kPerRank * ranks, source.at, target.at, stream));
  STEPCAST_TRY(Check(
      cudaMemcpyAsync(got.data(), target.at, got.size(), cudaMemcpyDeviceToHost, stream), doing));
  STEPCAST_TRY(Check(cudaStreamSynchronize(stream), doing));

  const std::vector<float> values = Widened(got, collective.data_type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // An average may divide before it sums.
    const float bound = collective.average ? 0.02f * std::max(1.0f, std::fabs(expected[i])) : 0.0f;
    if (std::fabs(values[i] - expected[i]) <= bound) continue;
    return tl::make_unexpected(Failure{
        fmt::format("{} of {} over '{}' computed a wrong result: element {} is {}, but must be {}",
                    Name(collective.kind), Name(collective.data_type), communicator.name, i,
                    values[i], expected[i])});
  }
  return {};
}

}  // namespace stepcast::runtime::cuda
