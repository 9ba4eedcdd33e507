#include "src/runtime/host/mpi_exchange.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/runtime/mpi_failure.h"

namespace stepcast::runtime::host {
namespace {

// The same as in mpi_ring.cc.
constexpr std::int64_t kPieceBytes = 60 << 10;
constexpr int kMostPieces = 32;
// The number of pieces that are sent before the peer has answered.
constexpr int kPiecesAhead = 2;
constexpr long kPauseNanoseconds = 50'000;
constexpr int kTag = 0;

}  // namespace

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
      done = CheckMpi(result, "go on with an exchange");
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
      if (Attempt<void> done = PostPiece(at, &lane.size, sizeof lane.size, Piece::kSize); !done) {
        return done;
      }
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
  if (Attempt<void> done = CheckMpi(result, lane.sends() ? "send" : "receive"); !done) return done;
  pending_.push_back(request);
  requests_.push_back({.lane = at, .bytes = piece == Piece::kSize ? -1 : bytes});
  return {};
}

Attempt<void> MpiExchange::Complete(const Request& request, const MPI_Status& status) {
  Lane& lane = lanes_[request.lane];
  if (Attempt<void> done = CheckMpi(status.MPI_ERROR, lane.sends() ? "send" : "receive"); !done) {
    return done;
  }
  if (request.bytes >= 0) {
    --lane.outstanding;
    return {};
  }
  lane.open = true;
  const std::int64_t wanted = lane.messages.front()->bytes;
  if (lane.size == wanted) return {};
  return tl::unexpected(Failure{fmt::format(
      "position {} sends {} bytes, and {} are received from it", lane.peer, lane.size, wanted)});
}

void MpiExchange::Cancel() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i] == MPI_REQUEST_NULL) continue;
    if (!lanes_[requests_[i].lane].sends()) MPI_Cancel(&pending_[i]);
    MPI_Request_free(&pending_[i]);
  }
}

}  // namespace stepcast::runtime::host
