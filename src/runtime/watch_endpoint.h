#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/runtime/byte_stream.h"
#include "src/runtime/connection.h"
#include "src/runtime/job.h"

namespace stepcast::runtime::watching {

// Where a rank's watch listens.
struct Endpoint {
  std::string host;
  int port = 0;
  std::vector<std::string> addresses;
};

void Write(ByteWriter& writer, const Endpoint& endpoint);
Endpoint ReadEndpoint(ByteReader& reader);  // its host printable

// Tries each address, those first that lead there most surely, each for so long. `own_host`: of the
// process that connects.
Attempt<Connection> ConnectTo(const Endpoint& endpoint, const std::string& own_host,
                              std::chrono::milliseconds timeout);

}  // namespace stepcast::runtime::watching
