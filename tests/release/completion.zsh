# Prints zsh's completion of the words of $1 after Tab, as soon as $2 appears or after ten seconds.
# zsh completes only on a terminal, so another zsh runs on a pseudo terminal.
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PROMPT=; RPROMPT=; autoload -U compinit; compinit -u -D; print rea''dy'
while zpty -r z line; do [[ $line == *ready* ]] && break; done
zpty -w -n z "$1"$'\t'
seen=
for tenth in {1..100}; do
  while zpty -rt z line; do seen+=$line; done
  [[ $seen == *$2* ]] && break
  sleep 0.1
done
print -r -- $seen
zpty -d z
