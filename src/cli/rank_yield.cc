#include "src/cli/rank_yield.h"

#include <utility>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/messaging/byte_stream.h"
#include "src/runtime/measurement_bytes.h"

namespace stepcast::cli {

using runtime::Attempt;
using runtime::Failure;

std::string ToBytes(const runtime::Place& place, const runtime::Measurement& measurement,
                    std::string_view weights) {
  messaging::ByteWriter writer;
  writer.Signed(place.local_rank);
  writer.Signed(place.local_ranks);
  writer.Signed(place.node);
  writer.Signed(place.nodes);
  writer.Text(place.host);
  writer.Text(runtime::ToBytes(measurement));
  writer.Text(weights);
  return writer.Take();
}

Attempt<RankYield> ToYield(std::string_view bytes, const ExpectedYield& expected) {
  const auto fail = [&](std::string_view why) {
    return tl::unexpected(Failure{fmt::format("rank {}: {}", expected.rank, why)});
  };
  messaging::ByteReader reader(bytes);
  RankYield yield;
  validate::RankRun& run = yield.run;
  run.place.rank = expected.rank;
  run.place.ranks = expected.ranks;
  run.place.local_rank = static_cast<int>(reader.Signed());
  run.place.local_ranks = static_cast<int>(reader.Signed());
  run.place.node = static_cast<int>(reader.Signed());
  run.place.nodes = static_cast<int>(reader.Signed());
  run.place.host = Printable(reader.Text());
  auto measurement = runtime::ToMeasurement(reader.Text());
  if (!measurement) return fail(measurement.error().message);
  yield.weights = reader.Text();
  if (reader.bad()) return fail("the results of the rank are incomplete");
  if (auto whole = runtime::CheckMeasurement(*measurement, expected.instructions, expected.steps);
      !whole) {
    return fail(whole.error().message);
  }
  run.measurement = std::move(*measurement);
  return yield;
}

}  // namespace stepcast::cli
