#include "src/runtime/host/mpi_transport.h"

#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/data_type.h"
#include "src/program/data_flow.h"
#include "src/runtime/device.h"
#include "src/runtime/host/simd_kernels.h"
#include "src/runtime/mpi_session.h"
#include "src/runtime/values/number_types.h"

namespace stepcast::runtime::host {
namespace {

// Reductions and gathers around a ring, with MPI's point-to-point messages. MPI's own collectives
// have two drawbacks. First, they choose among half a dozen algorithms by size and release, most of
// which send more than necessary. A ring sends each byte (n - 1) / n times in each of its two
// phases, as in textbooks and in NCCL for large sizes. Second, they occupy a core while they wait.
// With more ranks than cores, a waiting rank here sleeps and polls every 50 us instead.
//
// Each part is divided into pieces that are in flight independently: while one piece is added,
// others are being transferred. Pieces are small enough for MPI's eager protocol. MPI announces
// larger messages first, and the receiver's answer queues behind all ring traffic on its own link.
// A collective would then take about a third longer, depending on what ran before.
class MpiRing {
 public:
  // Uses a communicator, without owning it. The communicator must have no other messages.
  MpiRing(MPI_Comm communicator, int position, int members);

  // Sums `source` (all parts) over the members; each member receives its own part in `result`. With
  // `average`, the sum is divided by the number of members. Parts are equal shares of the elements,
  // rounded to whole elements. `result` may be the place of this part in `source`; otherwise the
  // two must not overlap.
  Attempt<void> ReduceScatter(const char* source, char* result, std::int64_t elements,
                              DataType type, bool average);
  // Gathers parts. Before the call, each member has its part in `data`; after it, all members have
  // all parts.
  Attempt<void> AllGather(char* data, std::int64_t elements, std::int64_t bytes_per_element);
  // Runs ReduceScatter and AllGather as a pipeline: while one piece is in the first phase, another
  // is already in the second.
  Attempt<void> AllReduce(const char* source, char* target, std::int64_t elements, DataType type,
                          bool average);

 private:
  struct Job {
    const char* source = nullptr;  // all parts, to be summed
    char* own = nullptr;           // where the own part's sum is stored
    char* gathered = nullptr;      // all parts
    std::int64_t elements = 0;
    std::int64_t element_bytes = 0;
    DataType type = DataType::kFp32;
    bool average = false;
    int first_step = 0, last_step = 0;  // reduction: 0 to members - 2; then the gather
  };
  struct Slice {
    std::int64_t begin = 0, count = 0;  // elements
  };
  // The state of a piece in flight.
  struct Slot {
    std::int64_t piece = 0;
    int step = 0;
    int outstanding = 0;  // number of messages in flight for the step
  };

  Attempt<void> Run(const Job& job);
  Attempt<void> Begin(const Job& job, int slot);
  Attempt<void> Post(const Job& job, int slot);
  void Complete(const Job& job, int slot);
  // Returns the elements of one piece of a part.
  Slice SliceOf(const Job& job, int part, std::int64_t piece) const;
  char* Scratch(int slot, int which) { return scratch_.data() + (2 * slot + which) * piece_bytes_; }
  int Part(int back) const { return ((position_ - back) % members_ + members_) % members_; }

  MPI_Comm communicator_;
  int position_;
  int members_;
  std::vector<Slot> slots_;
  std::int64_t pieces_ = 0;            // number of pieces in the collective
  std::int64_t begun_ = 0;             // number of pieces begun
  std::vector<MPI_Request> requests_;  // two for each slot: receive, send
  std::vector<int> completed_;
  std::vector<char> scratch_;
  std::int64_t piece_bytes_ = 0;  // size of each of a slot's two scratch slices
};

// Messages by MPI. A message begins with its size, sent synchronously: the sender continues when
// its peer has reached the message, as in NCCL. If two ranks both send to each other first, they
// therefore deadlock, as with NCCL. The bytes follow in pieces that MPI sends eagerly (see
// MpiRing). The first few pieces are sent together with the size, so that waiting for the answer
// costs no time. The last piece is also synchronous, so that the message ends for both ranks when
// it has arrived. Otherwise a socket's buffer would accept whole messages, unlike NCCL's buffers.
class MpiExchange {
 public:
  explicit MpiExchange(MPI_Comm communicator) : communicator_(communicator) {}

  // Implements Channel::Exchange.
  Attempt<void> Run(std::span<const MessageCall> messages);

 private:
  // The messages to or from one peer, which are sent one after another.
  struct Lane {
    program::MessageDirection direction = program::MessageDirection::kSend;
    int peer = 0;
    std::deque<const MessageCall*> messages{};  // the first is in flight
    std::int64_t size = 0;                      // sent or received size of the message in flight
    bool begun = false;                         // its size message has been posted
    bool open = false;                          // its size message has arrived
    std::int64_t posted = 0;                    // bytes
    int outstanding = 0;                        // number of pieces in flight
    bool sends() const { return direction == program::MessageDirection::kSend; }
  };
  struct Request {
    std::size_t lane = 0;
    int bytes = 0;  // of the piece; -1: it is the size message
  };

  Attempt<void> Post(std::size_t lane);
  enum class Piece : std::uint8_t { kSize, kInner, kLast };
  Attempt<void> PostPiece(std::size_t lane, void* data, int bytes, Piece piece);
  Attempt<void> Complete(const Request& request, const MPI_Status& status);
  // Cancels open receives, which would write into released memory.
  void Cancel();

  MPI_Comm communicator_;
  std::vector<Lane> lanes_;
  std::vector<MPI_Request> pending_;
  std::vector<Request> requests_;  // the requests of `pending_`
};

// Open MPI's TCP sends messages of up to 64 KiB, header included, eagerly (btl_tcp_eager_limit).
constexpr std::int64_t kPieceBytes = 60 << 10;
// The number of pieces in flight: 1.9 MiB. It keeps a link of 1 Gbit/s busy for 15 ms in which a
// rank has no core, and a link of 100 Gbit/s during the latency of its messages.
constexpr std::int64_t kSlots = 32;
// Tags are piece numbers modulo this, the range that MPI guarantees. Pieces that far apart are
// never in flight together.
constexpr std::int64_t kTags = 32768;
constexpr long kPauseNanoseconds = 50'000;

// sum = (received + own) / divisor
template <typename T>
void AddSlices(const T* received, const T* own, T* sum, std::int64_t count, float divisor) {
  if constexpr (std::is_same_v<T, float>) return AddAndDivide(received, own, count, divisor, sum);
  if (divisor == 1.0f) {
    for (std::int64_t i = 0; i < count; ++i) {
      sum[i] = values::FromFp32<T>(values::ToFp32(received[i]) + values::ToFp32(own[i]));
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const T whole = values::FromFp32<T>(values::ToFp32(received[i]) + values::ToFp32(own[i]));
    sum[i] = values::FromFp32<T>(values::ToFp32(whole) / divisor);
  }
}

// A ring of one member copies.
Attempt<void> CopyOf(const char* source, char* target, std::int64_t bytes) {
  if (source != target) std::memcpy(target, source, static_cast<std::size_t>(bytes));
  return {};
}

void Pause() {
  const timespec pause{0, kPauseNanoseconds};
  nanosleep(&pause, nullptr);
}

MpiRing::MpiRing(MPI_Comm communicator, int position, int members)
    : communicator_(communicator), position_(position), members_(members) {}

Attempt<void> MpiRing::ReduceScatter(const char* source, char* result, std::int64_t elements,
                                     DataType type, bool average) {
  if (members_ == 1) return CopyOf(source, result, elements * SizeOf(type));
  return Run({.source = source,
              .own = result,
              .elements = elements,
              .element_bytes = SizeOf(type),
              .type = type,
              .average = average,
              .first_step = 0,
              .last_step = members_ - 2});
}

Attempt<void> MpiRing::AllGather(char* data, std::int64_t elements,
                                 std::int64_t bytes_per_element) {
  if (members_ == 1) return {};
  return Run({.gathered = data,
              .elements = elements,
              .element_bytes = bytes_per_element,
              .first_step = members_ - 1,
              .last_step = 2 * members_ - 3});
}

Attempt<void> MpiRing::AllReduce(const char* source, char* target, std::int64_t elements,
                                 DataType type, bool average) {
  if (members_ == 1) return CopyOf(source, target, elements * SizeOf(type));
  const std::int64_t own = elements * position_ / members_ * SizeOf(type);
  return Run({.source = source,
              .own = target + own,
              .gathered = target,
              .elements = elements,
              .element_bytes = SizeOf(type),
              .type = type,
              .average = average,
              .first_step = 0,
              .last_step = 2 * members_ - 3});
}

MpiRing::Slice MpiRing::SliceOf(const Job& job, int part, std::int64_t piece) const {
  const std::int64_t begin = job.elements * part / members_;
  const std::int64_t size = job.elements * (part + 1) / members_ - begin;
  const std::int64_t first = size * piece / pieces_;
  return {begin + first, size * (piece + 1) / pieces_ - first};
}

Attempt<void> MpiRing::Run(const Job& job) {
  const std::int64_t part_bytes = (job.elements + members_ - 1) / members_ * job.element_bytes;
  pieces_ = std::max<std::int64_t>((part_bytes + kPieceBytes - 1) / kPieceBytes, 1);
  begun_ = 0;
  slots_.assign(static_cast<std::size_t>(std::min(pieces_, kSlots)), Slot());
  requests_.assign(2 * slots_.size(), MPI_REQUEST_NULL);
  completed_.resize(requests_.size());
  piece_bytes_ = (part_bytes / job.element_bytes / pieces_ + 1) * job.element_bytes;
  const std::size_t scratch = 2 * slots_.size() * static_cast<std::size_t>(piece_bytes_);
  if (job.source != nullptr && scratch_.size() < scratch) scratch_.resize(scratch);

  Attempt<void> done;
  std::size_t unfinished = slots_.size();
  for (int slot = 0; done && slot < static_cast<int>(slots_.size()); ++slot) {
    done = Begin(job, slot);
  }
  while (done && unfinished > 0) {
    int count = 0;
    done = CheckMpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                 completed_.data(), MPI_STATUSES_IGNORE),
                    "continue a collective");
    if (!done) break;
    if (count == 0 || count == MPI_UNDEFINED) {
      Pause();
      continue;
    }
    for (int i = 0; done && i < count; ++i) {
      const int index = completed_[i] / 2;
      Slot& slot = slots_[index];
      if (--slot.outstanding > 0) continue;
      Complete(job, index);
      if (slot.step++ != job.last_step) {
        done = Post(job, index);
      } else if (begun_ < pieces_) {
        done = Begin(job, index);
      } else {
        --unfinished;
      }
    }
  }
  return done;
}

// Starts the next piece in a slot.
Attempt<void> MpiRing::Begin(const Job& job, int slot) {
  slots_[slot] = {.piece = begun_++, .step = job.first_step, .outstanding = 0};
  return Post(job, slot);
}

// In step s of the reduction, a member sends its partial sum of the part s + 1 places back, and
// receives the part before that one. After the last step it has its own part. In step t of the
// gather it forwards the part t places back.
Attempt<void> MpiRing::Post(const Job& job, int slot) {
  const int step = slots_[slot].step;
  const bool reduces = step < members_ - 1;
  const int back = reduces ? step + 1 : step - (members_ - 1);
  const std::int64_t piece = slots_[slot].piece;
  const Slice sent = SliceOf(job, Part(back), piece);
  const Slice received = SliceOf(job, Part(back + 1), piece);
  const int tag = static_cast<int>(piece % kTags);
  const char* from = nullptr;
  char* to = nullptr;
  if (!reduces) {
    from = job.gathered + sent.begin * job.element_bytes;
    to = job.gathered + received.begin * job.element_bytes;
  } else {
    from = step == 0 ? job.source + sent.begin * job.element_bytes : Scratch(slot, (step + 1) % 2);
    to = Scratch(slot, step % 2);
  }
  slots_[slot].outstanding = 2;
  Attempt<void> done =
      CheckMpi(MPI_Irecv(to, static_cast<int>(received.count * job.element_bytes), MPI_BYTE,
                         Part(1), tag, communicator_, &requests_[2 * slot]),
               "receive a part of a collective");
  if (!done) return done;
  return CheckMpi(MPI_Isend(from, static_cast<int>(sent.count * job.element_bytes), MPI_BYTE,
                            Part(-1), tag, communicator_, &requests_[2 * slot + 1]),
                  "send a part of a collective");
}

void MpiRing::Complete(const Job& job, int slot) {
  const int step = slots_[slot].step;
  if (step >= members_ - 1) return;
  const bool last = step == members_ - 2;
  const Slice slice = SliceOf(job, Part(step + 2), slots_[slot].piece);
  char* received = Scratch(slot, step % 2);
  const char* own = job.source + slice.begin * job.element_bytes;
  char* sum = received;
  if (last) {
    const Slice part = {job.elements * position_ / members_, 0};
    sum = job.own + (slice.begin - part.begin) * job.element_bytes;
  }
  const float divisor = last && job.average ? static_cast<float>(members_) : 1.0f;
  values::WithStorageType(job.type, [&](auto storage) {
    using T = decltype(storage);
    AddSlices(reinterpret_cast<const T*>(received), reinterpret_cast<const T*>(own),
              reinterpret_cast<T*>(sum), slice.count, divisor);
  });
}

constexpr int kMostPieces = static_cast<int>(kSlots);
// The number of pieces that are sent before the peer has answered.
constexpr int kPiecesAhead = 2;
constexpr int kTag = 0;

Attempt<void> MpiExchange::Run(std::span<const MessageCall> messages) {
  lanes_.clear();
  pending_.clear();
  requests_.clear();
  for (const MessageCall& message : messages) {
    auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& known) {
      return known.direction == message.direction && known.peer == message.peer;
    });
    if (lane == lanes_.end()) {
      lane = lanes_.insert(lanes_.end(), {.direction = message.direction, .peer = message.peer});
    }
    lane->messages.push_back(&message);
  }
  Attempt<void> done;
  for (std::size_t lane = 0; lane < lanes_.size() && done; ++lane) done = Post(lane);
  std::vector<int> indices;
  std::vector<MPI_Status> states;
  while (done && !pending_.empty()) {
    int count = 0;
    indices.resize(pending_.size());
    states.resize(pending_.size());
    const int result = MPI_Testsome(static_cast<int>(pending_.size()), pending_.data(), &count,
                                    indices.data(), states.data());
    if (result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS) {
      done = CheckMpi(result, "continue an exchange");
      break;
    }
    if (count == 0 || count == MPI_UNDEFINED) {
      const timespec pause{0, kPauseNanoseconds};
      nanosleep(&pause, nullptr);
      continue;
    }
    std::vector<Request> completed;
    for (int i = 0; i < count && done; ++i) {
      completed.push_back(requests_[static_cast<std::size_t>(indices[i])]);
      MPI_Status& state = states[static_cast<std::size_t>(i)];
      if (result == MPI_SUCCESS) state.MPI_ERROR = MPI_SUCCESS;
      done = Complete(completed.back(), state);
    }
    // Completed requests are in no particular order.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (pending_[i] == MPI_REQUEST_NULL) continue;
      pending_[kept] = pending_[i];
      requests_[kept++] = requests_[i];
    }
    pending_.resize(kept);
    requests_.resize(kept);
    for (const Request& request : completed) {
      if (done) done = Post(request.lane);
    }
  }
  if (!done) Cancel();
  return done;
}

// Posts as many pieces as may be in flight at once.
Attempt<void> MpiExchange::Post(std::size_t at) {
  for (;;) {
    Lane& lane = lanes_[at];
    if (lane.messages.empty()) return {};
    const MessageCall& message = *lane.messages.front();
    if (!lane.begun) {
      lane.begun = true;
      lane.size = message.bytes;
      STEPCAST_TRY(PostPiece(at, &lane.size, sizeof lane.size, Piece::kSize));
    }
    const int most = lane.open ? kMostPieces : lane.sends() ? kPiecesAhead : 0;
    while (lane.posted < message.bytes && lane.outstanding < most) {
      const std::int64_t bytes = std::min(kPieceBytes, message.bytes - lane.posted);
      const bool last = lane.posted + bytes == message.bytes;
      Attempt<void> done = PostPiece(at, message.data + lane.posted, static_cast<int>(bytes),
                                     last ? Piece::kLast : Piece::kInner);
      if (!done) return done;
      lane.posted += bytes;
      ++lane.outstanding;
    }
    if (!lane.open || lane.posted < message.bytes || lane.outstanding > 0) return {};
    lane.messages.pop_front();
    lane.begun = lane.open = false;
    lane.posted = 0;
  }
}

Attempt<void> MpiExchange::PostPiece(std::size_t at, void* data, int bytes, Piece piece) {
  const Lane& lane = lanes_[at];
  MPI_Request request = MPI_REQUEST_NULL;
  int result = MPI_SUCCESS;
  if (!lane.sends()) {
    result = MPI_Irecv(data, bytes, MPI_BYTE, lane.peer, kTag, communicator_, &request);
  } else if (piece != Piece::kInner) {
    result = MPI_Issend(data, bytes, MPI_BYTE, lane.peer, kTag, communicator_, &request);
  } else {
    result = MPI_Isend(data, bytes, MPI_BYTE, lane.peer, kTag, communicator_, &request);
  }
  STEPCAST_TRY(CheckMpi(result, lane.sends() ? "send" : "receive"));
  pending_.push_back(request);
  requests_.push_back({.lane = at, .bytes = piece == Piece::kSize ? -1 : bytes});
  return {};
}

Attempt<void> MpiExchange::Complete(const Request& request, const MPI_Status& status) {
  Lane& lane = lanes_[request.lane];
  STEPCAST_TRY(CheckMpi(status.MPI_ERROR, lane.sends() ? "send" : "receive"));
  if (request.bytes >= 0) {
    --lane.outstanding;
    return {};
  }
  lane.open = true;
  const std::int64_t wanted = lane.messages.front()->bytes;
  if (lane.size == wanted) return {};
  return tl::unexpected(
      Failure{fmt::format("the rank at position {} sends {} bytes, but must send {} bytes",
                          lane.peer, lane.size, wanted)});
}

void MpiExchange::Cancel() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i] == MPI_REQUEST_NULL) continue;
    if (!lanes_[requests_[i].lane].sends()) MPI_Cancel(&pending_[i]);
    MPI_Request_free(&pending_[i]);
  }
}

// MPI counts in int, so larger broadcasts are split.
constexpr std::int64_t kLargestCount = std::int64_t{1} << 30;

class MpiChannel : public Channel {
 public:
  MpiChannel(MPI_Comm communicator, int position, int members)
      : communicator_(communicator),
        position_(position),
        members_(members),
        ring_(communicator, position, members),
        exchange_(communicator) {}
  ~MpiChannel() override {
    if (MpiSession::Current() != nullptr) MPI_Comm_free(&communicator_);
  }

  Attempt<void> Run(const CollectiveCall& call) override {
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return AllReduce(call);
      case CollectiveKind::kReduceScatter:
        return ReduceScatter(call);
      case CollectiveKind::kAllGather:
        return AllGather(call);
      case CollectiveKind::kBroadcast:
        return Broadcast(call);
      case CollectiveKind::kAllToAll:
        return AllToAll(call);
      default:
        STEPCAST_CHECK(false, "a step program must contain only supported collectives");
    }
    return {};
  }

  Attempt<void> Exchange(std::span<const MessageCall> messages) override {
    return exchange_.Run(messages);
  }

 private:
  Attempt<void> AllReduce(const CollectiveCall& call) {
    return ring_.AllReduce(static_cast<const char*>(call.source), static_cast<char*>(call.target),
                           call.elements, call.type, call.average);
  }

  Attempt<void> ReduceScatter(const CollectiveCall& call) {
    return ring_.ReduceScatter(static_cast<const char*>(call.source),
                               static_cast<char*>(call.target), call.elements, call.type,
                               call.average);
  }

  Attempt<void> AllGather(const CollectiveCall& call) {
    const std::int64_t size = SizeOf(call.type);
    const std::int64_t part = call.elements / members_ * size;
    char* target = static_cast<char*>(call.target);
    if (call.source != target + position_ * part) {
      std::memcpy(target + position_ * part, call.source, static_cast<std::size_t>(part));
    }
    return ring_.AllGather(target, call.elements, size);
  }

  Attempt<void> Broadcast(const CollectiveCall& call) {
    const std::int64_t bytes = call.elements * SizeOf(call.type);
    char* target = static_cast<char*>(call.target);
    if (position_ == call.root && call.source != call.target) {
      std::memcpy(target, call.source, static_cast<std::size_t>(bytes));
    }
    for (std::int64_t at = 0; at < bytes; at += kLargestCount) {
      const int count = static_cast<int>(std::min(kLargestCount, bytes - at));
      Attempt<void> done =
          CheckMpi(MPI_Bcast(target + at, count, MPI_BYTE, call.root, communicator_), "broadcast");
      if (!done) return done;
    }
    return {};
  }

  // As in NCCL: one group of messages.
  Attempt<void> AllToAll(const CollectiveCall& call) {
    const std::int64_t room = call.elements / members_, size = SizeOf(call.type);
    // A message that is sent is only read.
    auto* const source = static_cast<std::byte*>(const_cast<void*>(call.source));
    auto* const target = static_cast<std::byte*>(call.target);
    std::vector<MessageCall> messages;
    for (int part = 0; room > 0 && part + 1 < members_; ++part) {
      const int receiver = program::AllToAllReceiver(position_, part, members_);
      const int sender = program::AllToAllSender(position_, part, members_);
      messages.push_back(
          {.direction = program::MessageDirection::kSend,
           .peer = receiver,
           .bytes = size * ElementsSent(call.loads, room, call.type, position_, receiver),
           .data = source + part * room * size});
      messages.push_back(
          {.direction = program::MessageDirection::kReceive,
           .peer = sender,
           .bytes = size * ElementsSent(call.loads, room, call.type, sender, position_),
           .data = target + part * room * size});
    }
    return exchange_.Run(messages);
  }

  MPI_Comm communicator_;
  int position_;
  int members_;
  MpiRing ring_;
  MpiExchange exchange_;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(MpiSession& session) : session_(session) {}

  Attempt<std::unique_ptr<Channel>> Open(const std::string& /*name*/,
                                         const std::vector<int>& ranks) override {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm communicator = MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    Attempt<void> done =
        CheckMpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members),
                 "make a group");
    if (done) {
      done = CheckMpi(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &communicator),
                      "make a communicator");
    }
    if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
    MPI_Group_free(&world);
    if (!done) return tl::unexpected(done.error());
    STEPCAST_CHECK(communicator != MPI_COMM_NULL,
                   "a rank must open only communicators that it belongs to");
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    int position = 0;
    MPI_Comm_rank(communicator, &position);
    return std::make_unique<MpiChannel>(communicator, position, static_cast<int>(ranks.size()));
  }

  void Abandon(const std::string& /*why*/) override {}

  std::string Description() const override { return session_.LibraryVersion(); }

 private:
  MpiSession& session_;
};

}  // namespace

Attempt<std::unique_ptr<Transport>> ConnectMpi(const Job& job) {
  MpiSession* session = MpiSession::Current();
  if (session == nullptr || session->rank() != job.place().rank ||
      session->ranks() != job.place().ranks) {
    return nullptr;
  }
  return std::make_unique<MpiTransport>(*session);
}

}  // namespace stepcast::runtime::host
