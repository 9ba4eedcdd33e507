// A fuzz target; BUILD selects its reader.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/read_inputs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stepcast::fuzz::STEPCAST_READER({reinterpret_cast<const char*>(data), size});
  return 0;
}
