#pragma once

#include <memory>
#include <vector>

#include "src/messaging/mailbox.h"

namespace stepcast::messaging {

// Mailboxes for ranks that are threads of one process, for tests. There is one mailbox for each
// rank; each rank's thread uses its own.
std::vector<std::unique_ptr<Mailbox>> MakeThreadMailboxes(int ranks);

}  // namespace stepcast::messaging
