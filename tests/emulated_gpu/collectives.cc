#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <nccl.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulated_gpu/schedule.h"

using emulated::Die;
using emulated::Nanoseconds;
using emulated::Operation;
using emulated::OperationRef;
using emulated::Schedule;

namespace {

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kReceive };

// One rank's call.
struct Part {
  Kind kind;
  const std::byte* source;
  std::byte* target;
  std::size_t count;  // in the call's unit
  ncclDataType_t type;
  ncclRedOp_t operation;
  int peer = 0;  // of a send or receive
};
bool IsMessage(const Part& part) { return part.kind == Kind::kSend || part.kind == Kind::kReceive; }

// The ranks of a communicator, and their calls in progress.
struct Clique {
  int joined = 0;
  bool broken = false;
  struct Arrival {
    std::vector<Part> parts;
    Operation* operation = nullptr;
    Nanoseconds begin = 0;
  };
  std::vector<Arrival> arrived;  // by rank
  // A started group of sends and receives; the operation is null when it has ended.
  struct Messages {
    Operation* operation = nullptr;
    Nanoseconds begin = 0, end = 0;
    std::size_t open = 0;
  };
  struct MessageEnd {
    std::shared_ptr<Messages> group;
    Part part;
  };
  struct Lane {
    std::deque<MessageEnd> sent, received;  // ends whose other end is missing
  };
  std::map<std::pair<int, int>, Lane> lanes;  // by sender and receiver
};

std::map<std::string, std::shared_ptr<Clique>>& Cliques() {
  static std::map<std::string, std::shared_ptr<Clique>> cliques;
  return cliques;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, gpu = 0;
};

namespace {

#define EMULATED_CALL(failure)                          \
  const std::scoped_lock lock(Schedule::Get().mutex()); \
  if (emulated::CallFails(__func__)) return failure

std::size_t SizeOf(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : type == ncclFloat8e4m3 || type == ncclInt8 ? 1 : 2;
}

template <typename T>
void Add(const std::vector<const std::byte*>& sources, std::size_t first, std::size_t count,
         bool average, std::byte* target) {
  using stepcast::runtime::values::FromFp32;
  using stepcast::runtime::values::ToFp32;
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const std::byte* source : sources) {
      T value;
      std::memcpy(&value, source + (first + i) * sizeof(T), sizeof(T));
      sum += ToFp32(value);
    }
    if (average) sum /= static_cast<float>(sources.size());
    const T result = FromFp32<T>(sum);
    std::memcpy(target + i * sizeof(T), &result, sizeof(T));
  }
}

void Reduce(const Part& part, const std::vector<const std::byte*>& sources, std::size_t first,
            std::byte* target) {
  const bool average = part.operation == ncclAvg;
  switch (part.type) {
    case ncclFloat32:
      return Add<float>(sources, first, part.count, average, target);
    case ncclBfloat16:
      return Add<__nv_bfloat16>(sources, first, part.count, average, target);
    case ncclFloat16:
      return Add<__half>(sources, first, part.count, average, target);
    case ncclFloat8e4m3:
    case ncclInt8:
      break;
  }
  std::memcpy(target, sources.front() + first, part.count);  // a stand-in's numbers
}

// Executes part number `which` of all ranks. Targets may be sources, so sources are read first.
void Communicate(Clique& clique, std::size_t which) {
  const std::size_t ranks = clique.arrived.size();
  const Part& first = clique.arrived.front().parts[which];
  const std::size_t bytes = first.count * SizeOf(first.type);
  const std::size_t sent = first.kind == Kind::kReduceScatter ? bytes * ranks : bytes;
  std::vector<std::vector<std::byte>> copies;
  std::vector<const std::byte*> sources;
  for (const Clique::Arrival& arrival : clique.arrived) {
    const Part& part = arrival.parts[which];
    if (part.kind != first.kind || part.count != first.count || part.type != first.type ||
        part.operation != first.operation) {
      Die("the ranks of a communicator begin different collectives");
    }
    copies.emplace_back(part.source, part.source + sent);
  }
  for (const auto& copy : copies) sources.push_back(copy.data());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::byte* target = clique.arrived[rank].parts[which].target;
    switch (first.kind) {
      case Kind::kAllReduce:
        Reduce(first, sources, 0, target);
        break;
      case Kind::kReduceScatter:
        Reduce(first, sources, rank * first.count, target);
        break;
      case Kind::kAllGather:
        for (std::size_t from = 0; from < ranks; ++from) {
          std::memcpy(target + from * bytes, sources[from], bytes);
        }
        break;
      case Kind::kBroadcast:
        std::memcpy(target, sources.front(), bytes);
        break;
      case Kind::kSend:
      case Kind::kReceive:
        Die("messages are no collective");
    }
  }
}

void Break(Clique& clique) {
  clique.broken = true;
  for (Clique::Arrival& arrival : clique.arrived) {
    if (arrival.operation != nullptr) Schedule::Get().End(*arrival.operation, arrival.begin);
    arrival.operation = nullptr;
  }
  for (auto& [ends, lane] : clique.lanes) {
    for (auto* waiting : {&lane.sent, &lane.received}) {
      for (Clique::MessageEnd& end : *waiting) {
        Operation* const operation = std::exchange(end.group->operation, nullptr);
        if (operation != nullptr) Schedule::Get().End(*operation, end.group->begin);
      }
    }
  }
  clique.lanes.clear();
}

// Starts a rank's sends and receives on its GPU. The later end of each moves the data; the last one
// ends its rank's group.
std::optional<Nanoseconds> Exchange(const std::shared_ptr<Clique>& shared, int rank,
                                    const std::vector<Part>& parts, Operation& self,
                                    Nanoseconds begin) {
  Clique& clique = *shared;
  if (clique.broken) return begin;
  const auto own = std::make_shared<Clique::Messages>();
  *own = {&self, begin, begin, parts.size()};
  for (const Part& part : parts) {
    if (!IsMessage(part)) Die("messages and collectives in one group");
    const bool sends = part.kind == Kind::kSend;
    Clique::Lane& lane = clique.lanes[{sends ? rank : part.peer, sends ? part.peer : rank}];
    (sends ? lane.sent : lane.received).push_back({own, part});
    if (lane.sent.empty() || lane.received.empty()) continue;
    const Clique::MessageEnd sent = lane.sent.front(), received = lane.received.front();
    lane.sent.pop_front();
    lane.received.pop_front();
    if (sent.part.count != received.part.count || sent.part.type != received.part.type) {
      Die("the ends of a message differ");
    }
    const std::size_t bytes = sent.part.count * SizeOf(sent.part.type);
    std::memmove(received.part.target, sent.part.source, bytes);
    const Nanoseconds end = std::max(sent.group->begin, received.group->begin) + 5000 +
                            static_cast<Nanoseconds>(bytes / 100);
    for (const auto& group : {sent.group, received.group}) {
      group->end = std::max(group->end, end);
      if (--group->open > 0 || group == own) continue;
      Operation* const operation = std::exchange(group->operation, nullptr);
      Schedule::Get().End(*operation, group->end);
    }
  }
  if (own->open > 0) return std::nullopt;
  own->operation = nullptr;
  return own->end;
}

// Starts a rank's part on its GPU. The last rank executes the whole collective.
std::optional<Nanoseconds> Arrive(const std::shared_ptr<Clique>& shared, int rank,
                                  const std::vector<Part>& parts, Operation& self,
                                  Nanoseconds begin) {
  Clique& clique = *shared;
  if (clique.broken) return begin;
  Clique::Arrival& own = clique.arrived[static_cast<std::size_t>(rank)];
  if (own.operation != nullptr) Die("two collectives of one communicator run at once");
  own = {parts, &self, begin};
  Nanoseconds last = 0;
  for (const Clique::Arrival& arrival : clique.arrived) {
    if (arrival.operation == nullptr) return std::nullopt;
    if (arrival.parts.size() != parts.size()) Die("ranks begin different collectives");
    last = std::max(last, arrival.begin);
  }
  std::size_t bytes = 0;
  for (std::size_t which = 0; which < parts.size(); ++which) {
    Communicate(clique, which);
    bytes += parts[which].count * SizeOf(parts[which].type);
  }
  const Nanoseconds end = last + 5000 + static_cast<Nanoseconds>(bytes / 100);
  for (Clique::Arrival& arrival : clique.arrived) {
    Operation* operation = std::exchange(arrival.operation, nullptr);
    if (operation != &self) Schedule::Get().End(*operation, end);
  }
  return end;
}

// Calls between ncclGroupStart and ncclGroupEnd are one operation per communicator.
struct Group {
  int depth = 0;
  struct Call {
    ncclComm_t communicator;
    cudaStream_t stream;
    std::vector<Part> parts;
  };
  std::vector<Call> calls;
};
thread_local Group group;

void Begin(const Group::Call& call) {
  const auto clique = call.communicator->clique;
  if (call.communicator->gpu != emulated::CurrentGpu()) Die("a collective on another GPU");
  emulated::Enqueue(call.stream, {.work =
                                      [clique, rank = call.communicator->rank, parts = call.parts](
                                          Operation& self, Nanoseconds begin) {
                                        return IsMessage(parts.front())
                                                   ? Exchange(clique, rank, parts, self, begin)
                                                   : Arrive(clique, rank, parts, self, begin);
                                      },
                                  .collective = true});
}

ncclResult_t Call(const Part& part, ncclComm_t communicator, cudaStream_t stream) {
  if (group.depth == 0) {
    Begin({communicator, stream, {part}});
    return ncclSuccess;
  }
  for (Group::Call& call : group.calls) {
    if (call.communicator == communicator && call.stream == stream) {
      call.parts.push_back(part);
      return ncclSuccess;
    }
  }
  group.calls.push_back({communicator, stream, {part}});
  return ncclSuccess;
}

const std::byte* Bytes(const void* at) { return static_cast<const std::byte*>(at); }
std::byte* Bytes(void* at) { return static_cast<std::byte*>(at); }

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "an error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  EMULATED_CALL(ncclSystemError);
  static int next = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%d", ++next);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  EMULATED_CALL(ncclSystemError);
  auto& clique = Cliques()[id.internal];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->arrived.resize(static_cast<std::size_t>(ranks));
  ++clique->joined;
  *communicator = new ncclComm{clique, rank, emulated::CurrentGpu()};
  Schedule::Get().RunUntil([clique = clique, ranks] { return clique->joined >= ranks; });
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const std::scoped_lock lock(Schedule::Get().mutex());
  Break(*communicator->clique);
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  EMULATED_CALL(ncclSystemError);
  *error = communicator->clique->broken ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  EMULATED_CALL(ncclSystemError);
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const std::scoped_lock lock(Schedule::Get().mutex());
  if (--group.depth > 0) return ncclSuccess;
  const std::vector<Group::Call> calls = std::exchange(group.calls, {});
  if (emulated::CallFails("ncclGroupEnd")) return ncclSystemError;
  for (const Group::Call& call : calls) Begin(call);
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* source, void* target, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  EMULATED_CALL(ncclInvalidUsage);
  return Call({Kind::kAllReduce, Bytes(source), Bytes(target), count, type, operation},
              communicator, stream);
}
ncclResult_t ncclReduceScatter(const void* source, void* target, std::size_t received,
                               ncclDataType_t type, ncclRedOp_t operation, ncclComm_t communicator,
                               cudaStream_t stream) {
  EMULATED_CALL(ncclInvalidUsage);
  return Call({Kind::kReduceScatter, Bytes(source), Bytes(target), received, type, operation},
              communicator, stream);
}
ncclResult_t ncclAllGather(const void* source, void* target, std::size_t sent, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  EMULATED_CALL(ncclInvalidUsage);
  return Call({Kind::kAllGather, Bytes(source), Bytes(target), sent, type, ncclSum}, communicator,
              stream);
}
ncclResult_t ncclBroadcast(const void* source, void* target, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  EMULATED_CALL(ncclInvalidUsage);
  if (root != 0) Die("a broadcast from another rank than 0");
  return Call({Kind::kBroadcast, Bytes(source), Bytes(target), count, type, ncclSum}, communicator,
              stream);
}
ncclResult_t ncclSend(const void* source, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  EMULATED_CALL(ncclInvalidUsage);
  return Call({Kind::kSend, Bytes(source), nullptr, count, type, ncclSum, peer}, communicator,
              stream);
}
ncclResult_t ncclRecv(void* target, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  EMULATED_CALL(ncclInvalidUsage);
  return Call({Kind::kReceive, nullptr, Bytes(target), count, type, ncclSum, peer}, communicator,
              stream);
}
