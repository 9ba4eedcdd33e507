#pragma once

#include <memory>
#include <vector>

#include "src/messaging/mailbox.h"

namespace stepcast::messaging {

// Mailboxes of ranks that are threads of one process, one for each, for tests. Each rank's thread
// uses its own.
std::vector<std::unique_ptr<Mailbox>> MakeThreadMailboxes(int ranks);

}  // namespace stepcast::messaging
