#include "src/runtime/watch_endpoint.h"

#include <algorithm>
#include <cstdint>

#include "fmt/format.h"
#include "src/base/printable.h"

namespace stepcast::runtime::watching {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void Write(ByteWriter& writer, const Endpoint& endpoint) {
  writer.Text(endpoint.host);
  writer.Number(static_cast<std::uint64_t>(endpoint.port));
  writer.Number(endpoint.addresses.size());
  for (const std::string& address : endpoint.addresses) writer.Text(address);
}

Endpoint ReadEndpoint(ByteReader& reader) {
  Endpoint endpoint;
  endpoint.host = Printable(reader.Text());
  endpoint.port = static_cast<int>(reader.Number() & 0xFFFF);
  endpoint.addresses.resize(reader.Count());
  for (std::string& address : endpoint.addresses) address = reader.Text();
  return endpoint;
}

Attempt<Connection> ConnectTo(const Endpoint& endpoint, const std::string& own_host,
                              milliseconds timeout) {
  std::vector<std::string> addresses = endpoint.addresses;
  // Loopback leads to another machine's rank only by mistake; on one machine it is the surest.
  const auto loopback = [](const std::string& address) { return address.starts_with("127."); };
  if (endpoint.host == own_host) {
    std::stable_partition(addresses.begin(), addresses.end(), loopback);
  } else {
    std::erase_if(addresses, loopback);
  }
  Failure last{"it has no address"};
  for (const std::string& address : addresses) {
    auto connection = Connect(address, endpoint.port, steady_clock::now() + timeout);
    if (connection) return connection;
    last = {fmt::format("{}:{}: {}", address, endpoint.port, connection.error().message)};
  }
  return tl::unexpected(last);
}

}  // namespace stepcast::runtime::watching
