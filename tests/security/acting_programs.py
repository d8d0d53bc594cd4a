"""Programs, and the arguments with which each writes, sends, starts something or never ends."""

from __future__ import annotations

# Programs that are listed as only looking, with what makes them do more.
LISTED: dict[str, tuple[str, ...]] = {
    "find": (
        "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from",
    ),
    "git log": (
        "--output", "--output=out", "--ext-diff", "--textconv", "--show-signature", "-O", "-Oorder",
        "--format=%GK", "--pretty=format:%G?", "--pretty=named", "--format=named", "--exec-path=x", "--remerge-diff",
    ),
    "git diff": ("--output", "--output=out", "--ext-diff", "--textconv", "--no-index", "--output-indicator-new=x"),
    "git show": ("--output", "--output=out", "--ext-diff", "--textconv", "--show-signature", "--format=%GG"),
    "git blame": ("--contents", "--contents=x", "--textconv"),
    "git status": ("--column", "--recurse-submodules"),
    "git ls-files": ("--recurse-submodules",),
    "git rev-parse": ("--parseopt", "--sq-quote"),
    "rg": ("--pre", "--pre=sh", "--pre-glob=x", "--hostname-bin=x", "-z", "--search-zip", "--generate=man"),
    "tail": ("-f", "-F", "--follow", "--follow=name", "--retry", "--pid=1", "-5f", "+1f", "-nf", "-s1"),
    "du": ("--files0-from=x", "-X", "--exclude-from=x"),
    "wc": ("--files0-from=x",),
}  # fmt: skip

_UNLISTED = """
rm -rf|mv a|cp a|ln -s|touch|mkdir|rmdir|install|dd of=out|tee out|truncate -s0|shred|split|csplit|mkfifo|mknod
chmod 777|chown 0|chgrp 0|chattr|setfacl|sort -o out|sort --output=out|sort --compress-program=sh|uniq a out
sed -i s/a/b/|sed w|sed 1e|sed -n p|awk system|gawk -i inplace|mawk|perl -e|ruby -e|python -c
python3 -m http.server|node -e|php -r|lua -e|tclsh|guile|xxd -r|hexdump|od|xargs rm|parallel|env rm|nice rm
nohup rm|timeout 1 rm|time rm|setsid rm|stdbuf rm|unshare|nsenter|chroot|su -c|sudo rm|doas|pkexec|runuser
script -c|sh -c|bash -c|dash -c|zsh -c|fish -c|ksh -c|busybox rm|exec rm|eval rm|source a|. a|trap rm|alias a=rm
command rm|builtin|set|export A=1|cd|umask|ulimit|kill 1|pkill x|killall x|curl example.org|wget example.org
ssh host|scp a host:|sftp host|rsync a host:|ftp host|nc host 1|ncat|netcat|socat|telnet|ping host|dig host
nslookup host|host x|whois x|ip link|ifconfig|route|iptables|nft|tcpdump|nmap|openssl s_client|gpg --sign
ssh-keygen|ssh-add|mail|sendmail|mutt|tar --to-command=sh|tar xf a|zip a|unzip a|gzip a|gunzip a|bzip2 a|xz a
zstd a|7z x|cpio -o|ar r|make|cmake|ninja|bazel|gradle|mvn|cargo build|rustc|go run|gcc|cc|clang|ld|as|npm install
npx|yarn|pnpm|bun|deno run|pip install|uv run|poetry|pytest|tox|nox|ruff --fix|black|mypy|eslint --fix|tsc|jest
docker run|podman run|kubectl|helm|terraform apply|ansible|aws s3|gcloud|az|gh pr create|hub|glab|git push
git commit|git add|git checkout|git reset|git clean|git stash|git branch x|git tag x|git merge|git rebase|git fetch
git pull|git clone|git config a|git gc|git apply|git am|git worktree|git submodule|git bisect run|git grep -Oless
git difftool|git mergetool|git archive|git bundle|git fsck|git reflog|git notes|git init|git remote
git -c alias.x=!sh x|git -C . log|git --exec-path=. log|git -p log|less a|more a|man ls|vi a|vim a|nano a|emacs a
ed a|ex a|patch|diff --to-file=a|diff3|sdiff -o out|comm|join|paste|column|fold|fmt|pr|tr|rev|tac|shuf -o out|seq
yes|jq|yq|xmllint --output out|file -C|tree -o out|fd -x rm|ag --pager sh|ack --pager=sh|locate|updatedb|date -s 1
hostname x|hostnamectl|timedatectl|crontab a|at now|batch|systemctl start|service x start|launchctl|mount|umount
losetup|mkfs|fdisk|swapon|sync|reboot|shutdown|halt|init 0|sysctl -w a=1|modprobe x|insmod|dmesg -C|useradd|usermod
passwd|chsh|visudo|apt install|apt-get install|dpkg -i|rpm -i|dnf install|yum install|apk add|brew install
snap install|sqlite3 a|psql -c|mysql -e|redis-cli set|mongosh|perdure approve|perdure run|egrep x|fgrep x|zgrep x
zcat a|lsof|strace ls|ltrace ls|gdb -p 1|ps|top|watch rm|screen|tmux|printf x|test|true|sleep 9|md5sum|base64 -d
lsattr|logger x|write root|wall x|dbus-send|busctl|gsettings set|xdg-open a|open a|code a|ctags|cscope|indent a
dos2unix a|iconv -o out
"""
UNLISTED: tuple[str, ...] = tuple(
    one.strip() for line in _UNLISTED.split("\n") for one in line.split("|") if one.strip()
)
