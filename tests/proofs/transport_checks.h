#pragma once

#include <string>

#include "src/runtime/host/transport.h"

// Tests that hold for any transport. All ranks run them together.
namespace stepcast::runtime::host {

// Runs the tests. Exchanges: one message both ways around a ring, with every member and with the
// rank itself, and several messages between two ranks. Collectives: every kind, type and placement,
// large and small, over all ranks and over every second rank, with several communicators
// concurrently. Returns the first fault, or an empty string.
std::string CheckTransport(Transport& transport, int rank, int ranks);

}  // namespace stepcast::runtime::host
