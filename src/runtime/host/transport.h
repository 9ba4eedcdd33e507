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

// Transfers the data of collectives between ranks on CPUs: through memory shared by threads
// (thread_transport.h), or by MPI (mpi_transport.h).
namespace stepcast::runtime::host {

// One rank's part of one collective. program::EffectKind::kCollective defines sizes and the rules
// for in-place collectives.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DataType type = DataType::kFp32;
  bool average = false;       // divide the sum by the number of members
  std::int64_t elements = 0;  // number of elements of the full collective
  const void* source = nullptr;
  void* target = nullptr;
  int root = 0;  // broadcast: position of the member that sends
  AllToAllLoads loads{};
};

// One rank's end of a message.
struct MessageCall {
  program::MessageDirection direction = program::MessageDirection::kSend;
  int peer = 0;  // position in the group
  std::int64_t bytes = 0;
  std::byte* data = nullptr;  // bytes to send, or memory for the received bytes
};

// One rank's end of a communicator.
class Channel {
 public:
  virtual ~Channel() = default;

  // Runs this rank's part of a collective. Returns when this rank may use its buffers again.
  // Members call this function in the same order, one collective at a time. Sums of integers that
  // the type represents exactly are exact. Other sums may be rounded after each addition.
  virtual Attempt<void> Run(const CollectiveCall& call) = 0;
  // Sends and receives all messages concurrently, and returns when all have arrived. The k-th send
  // from member A to member B matches B's k-th receive from A. If their sizes differ, at least one
  // end gets a Failure. Messages from a member to itself are also matched in order.
  virtual Attempt<void> Exchange(std::span<const MessageCall> messages) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Opens a communicator. All of `ranks`, including this rank, call this function together with the
  // same `name`. The order of `ranks` is the order of the group. Two communicators of the same
  // ranks must have different names.
  virtual Attempt<std::unique_ptr<Channel>> Open(const std::string& name,
                                                 const std::vector<int>& ranks) = 0;

  // Announces that this rank stops communicating. Ranks that wait for this rank get a Failure with
  // the reason if the transport can notify them. With MPI, waiting ranks continue to wait until the
  // run ends. Thread-safe.
  virtual void Abandon(const std::string& why) = 0;

  // Returns a text such as "threads of one process" or "Open MPI ...".
  virtual std::string Description() const = 0;
};

}  // namespace stepcast::runtime::host
