#pragma once

#include <string>

#include "src/runtime/host/transport.h"

// Checks of a transport, run by all ranks together; for the tests of each.
namespace stepcast::runtime::host {

// Exchanges of one message, both ways around a ring, with every member, with itself and of several
// messages between two; collectives of every kind, type and place, large and small, over all ranks
// and over every other one, several communicators at a time. The first thing that is wrong, or
// nothing.
std::string CheckTransport(Transport& transport, int rank, int ranks);

}  // namespace stepcast::runtime::host
