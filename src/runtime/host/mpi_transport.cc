#include "src/runtime/host/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/program/data_flow.h"
#include "src/runtime/host/mpi_exchange.h"
#include "src/runtime/host/mpi_ring.h"
#include "src/runtime/mpi_failure.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime::host {
namespace {

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
        STEPCAST_CHECK(false, "step programs hold no other collective");
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
    STEPCAST_CHECK(communicator != MPI_COMM_NULL, "a rank opens communicators that it belongs to");
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
