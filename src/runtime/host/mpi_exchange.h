#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/runtime/host/transport.h"

// Messages by MPI. A message begins with its size, sent synchronously: the sender goes on when its
// peer has come to the message, as NCCL's sends do, so that two sends that face each other stand
// still here as they would there. The bytes follow in pieces that MPI sends at once
// (mpi_ring.h says why); the first few go with the size, so that the answer costs no time. The last
// one is sent synchronously, too, so that a message ends for both when it has arrived: a socket's
// buffer takes whole messages, which NCCL's, beside networks a hundred times as fast, does not.
namespace stepcast::runtime::host {

class MpiExchange {
 public:
  explicit MpiExchange(MPI_Comm communicator) : communicator_(communicator) {}

  // Channel::Exchange.
  Attempt<void> Run(std::span<const MessageCall> messages);

 private:
  // Messages of one direction with one peer go one after the other.
  struct Lane {
    program::MessageDirection direction = program::MessageDirection::kSend;
    int peer = 0;
    std::deque<const MessageCall*> messages{};  // the first is in flight
    std::int64_t size = 0;                      // its own, as sent; as received
    bool begun = false;                         // its size has been posted
    bool open = false;                          // ... and has arrived
    std::int64_t posted = 0;                    // bytes
    int outstanding = 0;                        // pieces
    bool sends() const { return direction == program::MessageDirection::kSend; }
  };
  struct Request {
    std::size_t lane = 0;
    int bytes = 0;  // of the piece; -1: the size
  };

  Attempt<void> Post(std::size_t lane);
  enum class Piece : std::uint8_t { kSize, kInner, kLast };
  Attempt<void> PostPiece(std::size_t lane, void* data, int bytes, Piece piece);
  Attempt<void> Complete(const Request& request, const MPI_Status& status);
  // Leaves no receive behind that would write into memory of others.
  void Cancel();

  MPI_Comm communicator_;
  std::vector<Lane> lanes_;
  std::vector<MPI_Request> pending_;
  std::vector<Request> requests_;  // of `pending_`
};

}  // namespace stepcast::runtime::host
