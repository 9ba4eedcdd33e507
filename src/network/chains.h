#pragma once

#include <vector>

#include "src/base/time.h"
#include "src/network/traffic.h"

namespace stepcast::network {

// The longest chains of messages in a collective's first loops, when nothing else is on the
// network. A message leaves when its step is carried out, which waits for the step before it, for
// the message that it receives, and until the message before it on its connection has left; in
// another stage, until all that the worker sent before has left.
class Chains {
 public:
  // `with_bytes`: false counts latencies alone. Requires 1 <= loops <= the list's.
  Chains(const Traffic& traffic, int loops, bool with_bytes);

  // [loop]: when the last message of the loops up to it has arrived.
  const std::vector<Time>& ends() const { return ends_; }
  // [connection]: the longest chain from the start to the end of all that leads through one of its
  // messages.
  const std::vector<Time>& through() const { return through_; }
  // [connection]: how long its messages of one loop take to leave.
  const std::vector<Time>& busy() const { return busy_; }

 private:
  std::vector<Time> ends_;
  std::vector<Time> through_;
  std::vector<Time> busy_;
};

}  // namespace stepcast::network
