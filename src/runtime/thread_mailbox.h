#pragma once

#include <memory>
#include <vector>

#include "src/runtime/mailbox.h"

namespace stepcast::runtime {

// Mailboxes of ranks that are threads of one process, one for each, for tests. Each rank's thread
// uses its own.
std::vector<std::unique_ptr<Mailbox>> MakeThreadMailboxes(int ranks);

}  // namespace stepcast::runtime
