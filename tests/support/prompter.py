"""A prompter that notes what it is told to trust."""


class ToldPrompter:
    """By model, what was told of its texts and of its chats."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[str, str]] = {}

    def set_trust(self, model: str, text: str, chat: str) -> None:
        """Note it."""
        self.told[model] = (text, chat)

    def forget(self, model: str) -> None:
        """Forget what was told."""
        self.told.pop(model, None)
