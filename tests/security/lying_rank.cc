#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/messaging/byte_stream.h"
#include "src/messaging/launch.h"
#include "src/runtime/job.h"
#include "src/runtime/mpi_session.h"
#include "src/runtime/watch.h"

// A malicious rank that mpirun started beside stepcast, in the same job.
//
//   lying_rank fails STATUS    not rank 0: it cannot take part, with that status
//   lying_rank differs         not rank 0: it has another plan and a strange host name
//   lying_rank leads STATUS    rank 0: the job ends before it runs, with that status
namespace stepcast {
namespace {

const std::string kEscapes = "\x1b[2J\x1b]0;owned\x07\xe2\x80\xae";

int Fail(const std::string& why) {
  fmt::print(stderr, "lying_rank: {}\n", why);
  return 9;
}

std::string Word(bool ends, std::uint64_t status, std::string_view messages) {
  messaging::ByteWriter writer;
  writer.Number(ends ? 1 : 0);
  writer.Number(status);
  writer.Text(messages);
  return writer.Take();
}

int Run(std::string_view lie, const std::string& status) {
  auto launch = messaging::FindLaunch([](const char* name) { return std::getenv(name); });
  if (!launch) return Fail("no launch");
  auto joined = runtime::JoinMpi();
  if (!joined) return Fail(joined.error().message);
  runtime::Job& job = **joined;
  // Joins like stepcast's ranks: hosts, then the watch.
  const bool differs = lie == "differs";
  if (!job.Gather(differs ? kEscapes : job.place().host)) return Fail("no hosts");
  messaging::ByteWriter hosts;
  for (int rank = 0; rank < job.place().ranks; ++rank) hosts.Text("host");
  if (!job.Broadcast(hosts.Take())) return Fail("no hosts");
  auto mailbox = runtime::OpenMpiMailbox();
  if (!mailbox) return Fail(mailbox.error().message);
  std::vector<runtime::Place> places(static_cast<std::size_t>(job.place().ranks), job.place());
  auto watch =
      runtime::Watch::OverProcesses(places, job.place().rank, *std::move(mailbox), {},
                                    [](int, const std::string& sentence) { Fail(sentence); });
  bool heard = true;
  const auto hear = [&](const auto& attempt) { heard = heard && attempt.has_value(); };
  if (lie == "leads") {
    hear(job.Gather(Word(true, 1, "")));
    hear(job.Broadcast(status));  // the agreed status
    hear(job.Broadcast(status));  // the end
  } else {
    if (lie == "differs") {
      hear(job.Gather(Word(false, 0, "")));
      hear(job.Broadcast(""));
      messaging::ByteWriter fingerprint;
      fingerprint.Text("another plan");
      fingerprint.Text(kEscapes);
      hear(job.Gather(fingerprint.Take()));
      hear(job.Gather(Word(false, 0, "")));
    } else {
      hear(job.Gather(
          Word(true, std::strtoull(status.c_str(), nullptr, 10), "it is wrong" + kEscapes + "\n")));
    }
    hear(job.Broadcast(""));
    hear(job.Broadcast(""));
  }
  hear(job.Barrier());
  if (!heard) return Fail("the job ended otherwise");
  watch->Finish();
  watch.reset();
  joined->reset();
  if (runtime::MpiSession* const session = runtime::MpiSession::Current()) session->Finish();
  return 0;
}

}  // namespace
}  // namespace stepcast

int main(int count, char** words) {
  return stepcast::Run(count > 1 ? words[1] : "", count > 2 ? words[2] : "");
}
