#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/program/program.h"
#include "src/runtime/device.h"

// How collectives get from rank to rank on CPUs: through the memory that the threads of a process
// share (thread_transport.h), or by MPI (mpi_transport.h).
namespace stepcast::runtime::host {

// One rank's part in one collective: what program::EffectKind::kCollective says of sizes and of
// collectives in place.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DataType type = DataType::kFp32;
  bool average = false;       // the sum is divided by the number of members
  std::int64_t elements = 0;  // of the whole
  const void* source = nullptr;
  void* target = nullptr;
  int root = 0;  // broadcast: the position of the member whose values are sent
  AllToAllLoads loads{};
};

// One rank's end of a message.
struct MessageCall {
  program::MessageDirection direction = program::MessageDirection::kSend;
  int peer = 0;  // position in the group
  std::int64_t bytes = 0;
  std::byte* data = nullptr;  // sends leave it as it is
};

// One rank's end of a communicator.
class Channel {
 public:
  virtual ~Channel() = default;

  // Takes part in a collective; returns when this rank's buffers are its own again. Members call
  // this in the same order, each for one collective at a time. Sums of whole numbers that the type
  // holds exactly are exact; others may be rounded after each addition.
  virtual Attempt<void> Run(const CollectiveCall& call) = 0;
  // Sends and receives all of these at once; returns when all have moved. The k-th message to a
  // member is the k-th that it receives from this one: of another size it is a Failure at one end
  // at least. Messages to itself are matched in order, too.
  virtual Attempt<void> Exchange(std::span<const MessageCall> messages) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // All of `ranks` (this one among them; their order is the group's) call this together, with the
  // same name; two communicators of the same ranks differ in their names.
  virtual Attempt<std::unique_ptr<Channel>> Open(const std::string& name,
                                                 const std::vector<int>& ranks) = 0;

  // This rank takes part in nothing more. Where the transport can tell them, partners that wait for
  // it get a Failure that says why; under MPI they wait until the run is ended. Any thread.
  virtual void Abandon(const std::string& why) = 0;

  // "threads of one process", "Open MPI ..."
  virtual std::string Description() const = 0;
};

}  // namespace stepcast::runtime::host
