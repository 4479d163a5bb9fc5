#include "trireme/launch/start_rank.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme::launch {
namespace {

// Arguments or environment as exec wants them: pointers into strings that live as long as this does.
struct CStrings {
  explicit CStrings(std::vector<std::string> values) : strings(std::move(values)) {
    for (std::string& value : strings) pointers.push_back(value.data());
    pointers.push_back(nullptr);
  }
  std::vector<std::string> strings;
  std::vector<char*> pointers;
};

CStrings environment_with(const Variables& variables) {
  std::vector<std::string> result;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(variables.begin(), variables.end(), [&](const auto& variable) { return variable.first == name; });
    if (!replaced) result.push_back(text);
  }
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return CStrings(std::move(result));
}

// Everything between fork and exec: only system calls, since the parent may have had threads.
void run_child(const RankStart& start, const SignalPipe& signals, pid_t launcher, const cpu_set_t* cpus, size_t bytes,
               int report, char** arguments, char** environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // the launcher may have died before prctl: then the signal never comes
  if (getppid() != launcher) _exit(1);
  if (cpus) sched_setaffinity(0, bytes, cpus);
  if (!start.give_input || isatty(STDIN_FILENO)) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDIN_FILENO);
  }
  if (start.output >= 0) dup2(start.output, STDOUT_FILENO);
  if (start.errors >= 0) dup2(start.errors, STDERR_FILENO);
  signals.restore_in_child();
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t n = write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

StartError::StartError(const std::string& program, int error_number)
    : SystemError(base::text_of("cannot start '", program, "': ", std::strerror(error_number))),
      exit_code_(error_number == ENOENT ? 127 : 126) {}

pid_t start_rank(const RankStart& start, const SignalPipe& signals) {
  TRIREME_CHECK(!start.command.empty(), "no program");
  CStrings arguments(start.command);
  CStrings environment = environment_with(start.variables);

  cpu_set_t* cpus = nullptr;
  size_t bytes = 0;
  if (!start.cpus.empty()) {
    const size_t count = static_cast<size_t>(*std::max_element(start.cpus.begin(), start.cpus.end())) + 1;
    cpus = CPU_ALLOC(count);
    bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, cpus);
    for (int cpu : start.cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, cpus);
  }

  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    throw base::SystemError(base::text_of("cannot make a pipe: ", std::strerror(errno)));
  }
  // a signal that the child got before exec would run the launcher's handler and reach the launcher's pipe
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) {
    run_child(start, signals, launcher, cpus, bytes, report[1], arguments.pointers.data(), environment.pointers.data());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (cpus) CPU_FREE(cpus);
  close(report[1]);
  if (pid < 0) {
    close(report[0]);
    throw base::SystemError(base::text_of("cannot start a process: ", std::strerror(fork_error)));
  }
  setpgid(pid, pid);

  int error = 0;
  ssize_t n;
  do n = read(report[0], &error, sizeof error);
  while (n < 0 && errno == EINTR);
  close(report[0]);
  if (n == sizeof error) {
    waitpid(pid, nullptr, 0);
    throw StartError(start.command.front(), error);
  }
  return pid;
}

void become(const std::vector<std::string>& command, const Variables& variables) {
  TRIREME_CHECK(!command.empty(), "no program");
  CStrings arguments(command);
  CStrings environment = environment_with(variables);
  execvpe(arguments.pointers[0], arguments.pointers.data(), environment.pointers.data());
  throw StartError(command.front(), errno);
}

}  // namespace trireme::launch
