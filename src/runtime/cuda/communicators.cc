#include "src/runtime/cuda/communicators.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/runtime/cuda/communicator_ids.h"
#include "src/runtime/cuda/failure.h"
#include "src/runtime/cuda/launch_plan.h"

namespace stepcast::runtime::cuda {
namespace {

Attempt<std::string> MakeId() {
  ncclUniqueId id;
  STEPCAST_TRY(Check(ncclGetUniqueId(&id), "making an id for a communicator"));
  return std::string(id.internal, sizeof id.internal);
}

}  // namespace

ncclDataType_t NcclType(DataType type) {
  switch (type) {
    case DataType::kFp32:
    case DataType::kTf32:
      return ncclFloat32;
    case DataType::kBf16:
      return ncclBfloat16;
    case DataType::kFp16:
      return ncclFloat16;
    case DataType::kFp8:
      return ncclFloat8e4m3;
  }
  return ncclFloat32;
}

Attempt<std::unique_ptr<Communicators>> Communicators::Make(const program::Program& program,
                                                            Job& job) {
  auto ids = ExchangeCommunicatorIds(program, job, MakeId);
  if (!ids) return tl::make_unexpected(std::move(ids).error());
  std::unique_ptr<Communicators> made(new Communicators(program));
  for (program::Index c = 0; c < program.communicators.size(); ++c) {
    Member& member = made->members_.emplace_back();
    const program::ProcessGroup& group = program.groups[program.communicators[c].group];
    const int rank = RankInGroup(program, c, job.place().rank);
    if (rank < 0) continue;
    member.ranks = static_cast<std::int64_t>(group.ranks.size());
    const std::string& bytes = (*ids)[c];
    ncclUniqueId id;
    STEPCAST_CHECK(bytes.size() == sizeof id.internal, "an id of NCCL's size");
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    // Blocking: otherwise NCCL starts a thread for each collective, which costs more than the
    // launch itself. That a partner never comes is the watcher's to notice.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    auto connected =
        Check(ncclCommInitRankConfig(&member.communicator, static_cast<int>(group.ranks.size()), id,
                                     rank, &config),
              fmt::format("connecting {} ranks of communicator '{}'", group.ranks.size(),
                          program.communicators[c].name));
    if (connected) continue;
    // The others wait at this communicator and would not come to end the ones before.
    made->Abort();
    return tl::make_unexpected(std::move(connected).error());
  }
  return made;
}

Communicators::~Communicators() {
  for (const Member& member : members_) {
    if (member.communicator != nullptr) ncclCommDestroy(member.communicator);
  }
}

Attempt<void> Communicators::Begin() { return Check(ncclGroupStart(), "beginning a collective"); }

Attempt<void> Communicators::End() { return Check(ncclGroupEnd(), "starting a collective"); }

Attempt<void> Communicators::Part(const program::Collective& collective, std::int64_t elements,
                                  const void* source, void* target, cudaStream_t stream) {
  const Member& member = members_[collective.communicator];
  STEPCAST_CHECK(member.communicator != nullptr, "a rank communicates in its own groups");
  const ncclDataType_t type = NcclType(collective.data_type);
  const ncclRedOp_t operation = collective.average ? ncclAvg : ncclSum;
  const CollectiveParts parts = PartsOf(collective.kind, elements, member.ranks);
  const auto sent = static_cast<std::size_t>(parts.sent);
  const auto received = static_cast<std::size_t>(parts.received);
  ncclResult_t result = ncclSuccess;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      result = ncclAllReduce(source, target, sent, type, operation, member.communicator, stream);
      break;
    case CollectiveKind::kReduceScatter:
      result =
          ncclReduceScatter(source, target, received, type, operation, member.communicator, stream);
      break;
    case CollectiveKind::kAllGather:
      result = ncclAllGather(source, target, sent, type, member.communicator, stream);
      break;
    case CollectiveKind::kBroadcast:
      result = ncclBroadcast(source, target, sent, type, 0, member.communicator, stream);
      break;
    default:
      STEPCAST_CHECK(false, "step programs hold no other collective");
  }
  if (result == ncclSuccess) return {};
  return Check(result, fmt::format("starting {} on communicator '{}'", Name(collective.kind),
                                   program_.communicators[collective.communicator].name));
}

Attempt<void> Communicators::CheckPartners() const {
  for (std::size_t c = 0; c < members_.size(); ++c) {
    if (members_[c].communicator == nullptr) continue;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(members_[c].communicator, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) continue;
    return Check(state, fmt::format("communicating on '{}'", program_.communicators[c].name));
  }
  return {};
}

void Communicators::Abort() {
  // One by one, the first would wait for the device, and so for a kernel of the second that waits
  // for a partner. As a group all are told first (PyTorch issue 119797); NCCL before 2.22 does not
  // take them so.
  constexpr int kTakesGroups = NCCL_VERSION(2, 22, 0);
  int version = 0;
  const bool together = ncclGetVersion(&version) == ncclSuccess && version >= kTakesGroups;
  if (together) ncclGroupStart();
  for (Member& member : members_) {
    if (member.communicator != nullptr) ncclCommAbort(member.communicator);
    member.communicator = nullptr;
  }
  if (together) ncclGroupEnd();
}

}  // namespace stepcast::runtime::cuda
