#include "src/scenario/transport_word.h"

namespace stepcast::scenario {

std::optional<Transport> ReadTransport(MappingReader& reader, Need need) {
  using enum Transport;
  return reader.ReadWord<Transport>("transport", need,
                                    {{Name(kInfiniband), kInfiniband},
                                     {Name(kRoce), kRoce},
                                     {Name(kEfa), kEfa},
                                     {Name(kOmniPath), kOmniPath},
                                     {Name(kSlingshot), kSlingshot},
                                     {Name(kSockets), kSockets},
                                     {"tcp", kSockets}});  // of earlier releases
}

}  // namespace stepcast::scenario
