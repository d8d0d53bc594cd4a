"""Programs that reach the network, by name. It is a list of what is known, and no proof that others do not."""

from __future__ import annotations

from perdure.domain.policy.shell.part import CommandPart

PROGRAMS = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "socat", "telnet", "ssh", "scp", "sftp", "rsync", "ftp", "tftp", "lftp",
    "aria2c", "httpie", "http", "https", "xh", "dig", "nslookup", "host", "ping", "traceroute", "nmap", "masscan",
    "mail", "sendmail", "mutt", "aws", "gcloud", "az", "gh", "glab", "hub", "kubectl", "helm", "terraform",
    "docker", "podman", "npm", "pnpm", "yarn", "bun", "npx", "bunx", "pip", "pip3", "pipx", "uv", "uvx", "poetry",
    "conda", "mamba", "gem", "apt", "apt-get", "yum", "dnf", "apk", "brew", "ngrok", "cloudflared", "tailscale",
    "rclone", "s3cmd", "gsutil", "svn", "hg", "chromium", "google-chrome", "lynx", "w3m", "links",
})  # fmt: skip
VERBS = {
    "git": frozenset({"push", "fetch", "pull", "clone", "ls-remote", "remote", "submodule", "send-email"}),
    "cargo": frozenset({"publish", "install", "fetch", "update", "search", "login", "add"}),
    "go": frozenset({"get", "install", "mod"}),
}
DEVICES = ("/dev/tcp/", "/dev/udp/")


def reaches_network(part: CommandPart) -> bool:
    """Whether a program is known to reach the network."""
    if part.program in PROGRAMS:
        return True
    if any(word in VERBS.get(part.program, ()) for word in part.words[:1]):
        return True
    return any(DEVICES[0] in one or DEVICES[1] in one for one in (*part.words, *part.writes, *part.reads))
