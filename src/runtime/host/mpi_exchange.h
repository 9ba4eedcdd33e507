#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/runtime/host/transport.h"

// Messages by MPI. A message begins with its size, sent synchronously: the sender continues when
// its peer has reached the message, as in NCCL. If two ranks both send to each other first, they
// therefore deadlock, as with NCCL. The bytes follow in pieces that MPI sends eagerly (see
// mpi_ring.h). The first few pieces are sent together with the size, so that waiting for the answer
// costs no time. The last piece is also synchronous, so that the message ends for both ranks when
// it has arrived. Otherwise a socket's buffer would accept whole messages, unlike NCCL's buffers.
namespace stepcast::runtime::host {

class MpiExchange {
 public:
  explicit MpiExchange(MPI_Comm communicator) : communicator_(communicator) {}

  // Implements Channel::Exchange.
  Attempt<void> Run(std::span<const MessageCall> messages);

 private:
  // The messages of one direction with one peer, sent one after another.
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

}  // namespace stepcast::runtime::host
