#pragma once

#include <string>

#include "src/runtime/host/transport.h"

// Tests of any transport, which all ranks run together.
namespace stepcast::runtime::host {

// Tests exchanges: one message both ways around a ring, with every member, with the rank itself,
// and several messages between two ranks. Tests collectives of every kind, type and placement,
// large and small, over all ranks and over every second rank, with several communicators
// concurrently. Returns the first fault, or an empty string.
std::string CheckTransport(Transport& transport, int rank, int ranks);

}  // namespace stepcast::runtime::host
