// The command line of dedupe: picks the command.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/app/access_commands.h"
#include "server/app/app.h"
#include "server/app/config.h"
#include "server/app/settings.h"

namespace {

constexpr char kUsage[] =
    "dedupe: the idempotency bookkeeping of other services\n"
    "\n"
    "  dedupe serve [SETTING...]    serve gRPC until SIGTERM or SIGINT\n"
    "  dedupe migrate [SETTING...]  bring the database to this version's "
    "schema\n";
constexpr char kUsageEnd[] =
    "  dedupe version\n"
    "  dedupe help\n"
    "\n"
    "Settings, by flag or by environment variable; the flag wins:\n"
    "\n";

// What a shell expects of a command that was called wrongly.
constexpr int kExitUsage = 2;

bool AsksForHelp(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h" || argument == "help") {
      return true;
    }
  }
  return false;
}

using Command = absl::Status (*)(const dedupe::Config&);

int Run(Command command, const std::vector<std::string>& settings) {
  const auto config = dedupe::LoadConfig(settings);
  if (!config.ok()) {
    std::cerr << "dedupe: " << config.status().message() << "\n";
    return kExitUsage;
  }
  const absl::Status status = command(*config);
  if (status.ok()) return 0;
  std::cerr << "dedupe: " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  dedupe::PrepareProcess();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || AsksForHelp(arguments)) {
    (arguments.empty() ? std::cerr : std::cout)
        << kUsage << dedupe::AccessCommandsHelp() << kUsageEnd
        << dedupe::SettingsHelp();
    return arguments.empty() ? kExitUsage : 0;
  }
  const std::string command = arguments.front();
  const std::vector<std::string> settings(arguments.begin() + 1,
                                          arguments.end());
  if (command == "version" || command == "--version") {
    std::cout << "dedupe " << dedupe::Version() << "\n";
    return 0;
  }
  if (command == "serve") return Run(dedupe::Serve, settings);
  if (command == "migrate") return Run(dedupe::MigrateDatabase, settings);
  if (command == "principal") return dedupe::RunPrincipalCommand(settings);
  if (command == "token") return dedupe::RunTokenCommand(settings);
  // It may be a connection string without its name, or a token, which is
  // nobody's to see.
  const bool is_word = command.find_first_of("=@/.") == std::string::npos;
  std::cerr << "dedupe: there is no command \"" << (is_word ? command : "...")
            << "\"; `dedupe help` shows them all\n";
  return kExitUsage;
}
