#include "src/runtime/cuda/communicators.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/runtime/cuda/failure.h"
#include "src/runtime/cuda/launch_plan.h"

namespace stepcast::runtime::cuda {
void AbortCommunicators(const std::vector<ncclComm_t>& communicators) {
  constexpr int kTakesGroups = NCCL_VERSION(2, 22, 0);
  int version = 0;
  const bool together = ncclGetVersion(&version) == ncclSuccess && version >= kTakesGroups &&
                        ncclGroupStart() == ncclSuccess;
  for (ncclComm_t communicator : communicators) {
    if (communicator != nullptr) ncclCommAbort(communicator);
  }
  if (together) ncclGroupEnd();
}

CommunicatorCache::~CommunicatorCache() {
  // ncclCommDestroy would wait for the other ranks, whose threads may have ended.
  std::vector<ncclComm_t> all;
  for (const auto& [key, communicator] : communicators_) all.push_back(communicator);
  if (!all.empty()) AbortCommunicators(all);
}

ncclComm_t CommunicatorCache::Take(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = communicators_.find(key);
  return found == communicators_.end() ? nullptr : std::exchange(found->second, nullptr);
}

void CommunicatorCache::Give(const Key& key, ncclComm_t communicator) {
  const std::scoped_lock lock(mutex_);
  communicators_[key] = communicator;
}

namespace {

void Convert(CollectiveOperands::Conversions& conversions, TypePair types, void* target,
             const void* source, std::int64_t elements) {
  auto found = std::find_if(conversions.begin(), conversions.end(),
                            [&](const auto& entry) { return entry.first == types; });
  if (found == conversions.end()) found = conversions.insert(conversions.end(), {types, {}});
  found->second.push_back(
      {.target = target, .source = source, .elements = elements, .block = elements});
}

}  // namespace

CollectiveOperands OperandsOf(const program::Collective& collective, std::int64_t ranks,
                              std::span<const program::Effect> effects,
                              const std::function<std::byte*(const program::Elements&)>& at,
                              std::byte* staging) {
  const DataType type = collective.data_type;
  const auto take = [&](std::int64_t elements) {
    std::byte* const taken = staging;
    staging += AlignedInArena(BytesOf(elements, type)).count();
    return taken;
  };
  CollectiveOperands operands;
  for (const program::Effect& effect : effects) {
    if (effect.kind != program::EffectKind::kCollective) continue;
    CollectiveOperands::Part part{
        .elements = effect.elements, .source = at(effect.source), .target = at(effect.target)};
    const program::CollectiveParts counts =
        program::PartsOf(collective.kind, effect.elements, ranks);
    if (effect.source.type != type) {
      std::byte* staged = take(counts.sent);
      Convert(operands.before, {type, effect.source.type}, staged, part.source, counts.sent);
      part.source = staged;
    }
    if (effect.target.type != type) {
      std::byte* staged = take(counts.received);
      Convert(operands.after, {effect.target.type, type}, part.target, staged, counts.received);
      part.target = staged;
    }
    operands.parts.push_back(part);
  }
  return operands;
}

namespace {

Attempt<std::string> MakeId() {
  ncclUniqueId id;
  STEPCAST_TRY(Check(ncclGetUniqueId(&id), "creating the NCCL id of a communicator"));
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
    case DataType::kMxfp8:
      return ncclFloat8e4m3;
    case DataType::kNvfp4:  // two elements per byte
      return ncclInt8;
  }
  return ncclFloat32;
}

Attempt<std::unique_ptr<Communicators>> Communicators::Make(const program::Program& program,
                                                            Job& job, CommunicatorCache& cache) {
  std::unique_ptr<Communicators> made(new Communicators(program, cache));
  std::vector<bool> held;
  for (program::Index c = 0; c < program.communicators.size(); ++c) {
    const program::ProcessGroup& group = program.groups[program.communicators[c].group];
    Member member{.key = {.rank = job.place().rank, .ranks = group.ranks}};
    member.ranks = static_cast<std::int64_t>(group.ranks.size());
    for (const Member& before : made->members_) {
      if (before.key.ranks == group.ranks) ++member.key.copy;
    }
    if (RankInGroup(program, c, job.place().rank) >= 0)
      member.communicator = cache.Take(member.key);
    held.push_back(member.communicator != nullptr);
    made->members_.push_back(std::move(member));
  }
  auto ids = ExchangeCommunicatorIds(program, job, held, MakeId);
  if (!ids) {
    made->Abort();
    return tl::make_unexpected(std::move(ids).error());
  }
  for (program::Index c = 0; c < program.communicators.size(); ++c) {
    Member& member = made->members_[c];
    const program::ProcessGroup& group = program.groups[program.communicators[c].group];
    const int rank = RankInGroup(program, c, job.place().rank);
    const std::string& bytes = (*ids)[c];
    if (rank < 0 || bytes.empty()) continue;
    // A partner's end of this communicator is broken.
    if (member.communicator != nullptr) {
      AbortCommunicators({std::exchange(member.communicator, nullptr)});
    }
    ncclUniqueId id;
    STEPCAST_CHECK(bytes.size() == sizeof id.internal,
                   "the id of a communicator must have the size that NCCL requires");
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    // Blocking: otherwise NCCL starts a thread for each collective, which costs more than the
    // launch itself. The watch notices a partner that never arrives.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    auto connected =
        Check(ncclCommInitRankConfig(&member.communicator, static_cast<int>(group.ranks.size()), id,
                                     rank, &config),
              fmt::format("connecting {} ranks of communicator '{}'", group.ranks.size(),
                          program.communicators[c].name));
    if (connected) continue;
    // The other ranks wait at this communicator and would not take part in destroying the earlier
    // ones.
    made->Abort();
    return tl::make_unexpected(std::move(connected).error());
  }
  return made;
}

Communicators::~Communicators() {
  for (const Member& member : members_) {
    if (member.communicator != nullptr) cache_.Give(member.key, member.communicator);
  }
}

Attempt<void> Communicators::Begin() { return Check(ncclGroupStart(), "beginning a collective"); }

Attempt<void> Communicators::End() { return Check(ncclGroupEnd(), "starting a collective"); }

Attempt<void> Communicators::Part(const program::Collective& collective, std::int64_t elements,
                                  const void* source, void* target, cudaStream_t stream) {
  const Member& member = members_[collective.communicator];
  STEPCAST_CHECK(member.communicator != nullptr,
                 "a rank must communicate only in groups that it belongs to");
  const ncclDataType_t type = NcclType(collective.data_type);
  const ncclRedOp_t operation = collective.average ? ncclAvg : ncclSum;
  const program::CollectiveParts parts = program::PartsOf(collective.kind, elements, member.ranks);
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
      result =
          ncclBroadcast(source, target, sent, type, collective.root, member.communicator, stream);
      break;
    case CollectiveKind::kAllToAll:
      return AllToAll(collective, parts, source, target, stream);
    default:
      STEPCAST_CHECK(false, "a step program must contain only supported collectives");
  }
  if (result == ncclSuccess) return {};
  return Check(result, fmt::format("starting {} on communicator '{}'", Name(collective.kind),
                                   program_.communicators[collective.communicator].name));
}

// Its messages wait for one another, so they need a group of their own, even within another group.
Attempt<void> Communicators::AllToAll(const program::Collective& collective,
                                      const program::CollectiveParts& parts, const void* source,
                                      void* target, cudaStream_t stream) {
  const Member& member = members_[collective.communicator];
  const auto ranks = static_cast<int>(member.ranks);
  if (ranks == 1 || parts.sent == 0) return {};
  const int position = RankInGroup(program_, collective.communicator, member.key.rank);
  const std::int64_t room = parts.sent / (ranks - 1);
  const auto sent = [&](int sender, int receiver) {
    return BytesOf(ElementsSent(collective.loads, room, collective.data_type, sender, receiver),
                   collective.data_type);
  };
  // NCCL only reads the data that is sent.
  auto* const from = static_cast<std::byte*>(const_cast<void*>(source));
  auto* const to = static_cast<std::byte*>(target);
  STEPCAST_TRY(Begin());
  Attempt<void> started;
  using program::MessageDirection;
  for (int part = 0; started && part + 1 < ranks; ++part) {
    const std::int64_t at = BytesOf(part * room, collective.data_type).count();
    const int receiver = program::AllToAllReceiver(position, part, ranks);
    const int sender = program::AllToAllSender(position, part, ranks);
    started = Move(collective.communicator, MessageDirection::kSend, receiver,
                   sent(position, receiver), from + at, stream);
    if (!started) break;
    started = Move(collective.communicator, MessageDirection::kReceive, sender,
                   sent(sender, position), to + at, stream);
  }
  // Ends the group in any case.
  Attempt<void> ended = End();
  return started ? ended : started;
}

Attempt<void> Communicators::Move(program::Index communicator, program::MessageDirection direction,
                                  int peer, Bytes bytes, void* data, cudaStream_t stream) {
  const Member& member = members_[communicator];
  STEPCAST_CHECK(member.communicator != nullptr,
                 "a rank must communicate only in groups that it belongs to");
  const auto count = static_cast<std::size_t>(bytes.count());
  const ncclResult_t result =
      direction == program::MessageDirection::kSend
          ? ncclSend(data, count, ncclInt8, peer, member.communicator, stream)
          : ncclRecv(data, count, ncclInt8, peer, member.communicator, stream);
  if (result == ncclSuccess) return {};
  return Check(result, fmt::format("starting to {} on communicator '{}'", Name(direction),
                                   program_.communicators[communicator].name));
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
  std::vector<ncclComm_t> all;
  for (Member& member : members_) all.push_back(std::exchange(member.communicator, nullptr));
  AbortCommunicators(all);
}

namespace {

// Texts one after another, each with its length in front: 4 bytes in the machine's byte order,
// since all ranks of a job run on one kind of machine.
std::string Packed(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    char bytes[sizeof length];
    std::memcpy(bytes, &length, sizeof length);
    packed.append(bytes, sizeof length);
    packed += text;
  }
  return packed;
}

Attempt<std::vector<std::string>> Unpacked(std::string_view packed, std::size_t count) {
  std::vector<std::string> texts;
  while (!packed.empty()) {
    std::uint32_t length = 0;
    if (packed.size() < sizeof length) break;
    std::memcpy(&length, packed.data(), sizeof length);
    packed.remove_prefix(sizeof length);
    if (packed.size() < length) break;
    texts.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  if (!packed.empty() || texts.size() != count) {
    return tl::make_unexpected(Failure{
        fmt::format("the programs of the ranks have different communicators: {} ids instead of {}",
                    texts.size(), count)});
  }
  return texts;
}

// Gathers the bytes of every rank at every rank.
Attempt<std::vector<std::string>> GatherEverywhere(Job& job, std::string own) {
  Attempt<std::vector<std::string>> gathered = job.Gather(std::move(own));
  if (!gathered) return gathered;
  STEPCAST_TAKE(std::string all, job.Broadcast(Packed(*gathered)));
  return Unpacked(all, static_cast<std::size_t>(job.place().ranks));
}

}  // namespace

Attempt<std::vector<std::string>> ExchangeCommunicatorIds(
    const program::Program& program, Job& job, const std::vector<bool>& held,
    const std::function<Attempt<std::string>()>& make) {
  const std::size_t count = program.communicators.size();
  if (count == 0) return std::vector<std::string>();
  const auto ranks_of = [&](std::size_t c) -> const std::vector<int>& {
    return program.groups[program.communicators[c].group].ranks;
  };

  // If one member lacks a communicator, its whole group makes a new one.
  std::string own_held;
  for (const bool one : held) own_held += one ? '1' : '0';
  Attempt<std::vector<std::string>> all_held = GatherEverywhere(job, own_held);
  if (!all_held) return all_held;
  std::vector<bool> missing(count, false);
  for (std::size_t c = 0; c < count; ++c) {
    for (const int rank : ranks_of(c)) {
      STEPCAST_CHECK(rank >= 0 && rank < job.place().ranks,
                     "every rank of a group must be a rank of the job");
      const std::string& of_rank = (*all_held)[static_cast<std::size_t>(rank)];
      if (of_rank.size() != count) {
        return tl::make_unexpected(Failure{
            fmt::format("the programs of the ranks have different communicators: {} instead of {}",
                        of_rank.size(), count)});
      }
      missing[c] = missing[c] || of_rank[c] == '0';
    }
  }

  std::vector<std::string> own(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (!missing[c] || ranks_of(c).front() != job.place().rank) continue;
    STEPCAST_TAKE(own[c], make());
  }
  Attempt<std::vector<std::string>> packed = GatherEverywhere(job, Packed(own));
  if (!packed) return packed;
  std::vector<std::string> mine(count);
  for (std::size_t c = 0; c < count; ++c) {
    if (!missing[c]) continue;
    const auto first = static_cast<std::size_t>(ranks_of(c).front());
    Attempt<std::vector<std::string>> ids = Unpacked((*packed)[first], count);
    if (!ids) return ids;
    mine[c] = (*ids)[c];
  }
  return mine;
}

int RankInGroup(const program::Program& program, program::Index communicator, int rank) {
  const std::vector<int>& ranks = program.groups[program.communicators[communicator].group].ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace stepcast::runtime::cuda
