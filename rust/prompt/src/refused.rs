//! Why exact tokens cannot be had.

use thiserror::Error;

/// Why the exact tokens of a request cannot be had here; it is then routed by its text.
///
/// A reason carries no text of the prompt, and there are few of them, so that each may be a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Refused {
    /// There is no tokenizer for the model.
    #[error("the model has no tokenizer here")]
    NoTokenizer,
    /// A worker of the model makes other tokens of a text.
    #[error("a worker of the model makes other tokens of a text")]
    TokensDiffer,
    /// A worker of the model makes other tokens of a chat, and the same of a text.
    #[error("a worker of the model makes other tokens of a chat")]
    TemplateDiffers,
    /// The tokenizer's folder has no chat template.
    #[error("the model has no chat template")]
    NoTemplate,
    /// The request brings a chat template.
    #[error("the request has a chat template of its own")]
    OwnTemplate,
    /// The worker would cut the prompt.
    #[error("the request truncates its prompt")]
    Truncated,
    /// `chat_template_kwargs` is no object, or names an argument of the renderer.
    #[error("chat_template_kwargs gives an argument of the renderer, or is not an object")]
    Keywords,
    /// `kv_transfer_params` brings the prompt's ids, which stand in the place of the messages.
    #[error("the request brings token ids in kv_transfer_params")]
    ReusedIds,
    /// A field of the request has a value that the worker refuses, or reads in a way that is not followed here.
    #[error("a field of the request has a value that is not taken here")]
    Option,
    /// The messages are not what the worker takes.
    #[error("the messages are not what the worker takes")]
    Messages,
    /// A message has an image, audio, video or embeddings.
    #[error("a message has media")]
    Media,
    /// A part of a message is of a type that is not known here, or has fields that are not.
    #[error("a part of a message is of a type, or has a field, that is not known here")]
    Part,
    /// The tools are not what the worker takes, or not functions.
    #[error("the tools are not functions that the worker takes")]
    Tools,
    /// A tool call of the conversation is not what the worker takes.
    #[error("a tool call of the conversation is not what the worker takes")]
    ToolCall,
    /// The conversation goes on from one that the worker has stored.
    #[error("the conversation goes on from one that the worker has stored")]
    StoredConversation,
    /// An item of `input` is of a type that is not known here.
    #[error("an item of the input is of a type that is not known here")]
    Item,
    /// The final message cannot be continued.
    #[error("the final message cannot be continued")]
    FinalMessage,
    /// The template prints the date or the time, and the worker's clock cannot be known here.
    #[error("the chat template prints the date or the time")]
    Clock,
    /// The template raises an error: so does the worker's.
    #[error("the chat template raises an error")]
    Raised,
    /// The template fails, or uses what is not the same here as in Python.
    #[error("the chat template uses what is not exact here")]
    Template,
    /// A value has no exact counterpart: a lone surrogate, an integer beyond 128 bits, nesting too deep.
    #[error("a value of the request has no exact counterpart here")]
    Value,
    /// What should be JSON is not.
    #[error("a value of the request is not JSON")]
    NotJson,
    /// A completion's prompt is not one text.
    #[error("the prompt is not a text")]
    Prompt,
    /// The tokenizer fails on the text.
    #[error("the tokenizer fails on the text")]
    Tokenizer,
}

impl Refused {
    /// Every reason.
    pub const ALL: [Refused; 24] = [
        Refused::NoTokenizer,
        Refused::TokensDiffer,
        Refused::TemplateDiffers,
        Refused::NoTemplate,
        Refused::OwnTemplate,
        Refused::Truncated,
        Refused::Keywords,
        Refused::ReusedIds,
        Refused::Option,
        Refused::Messages,
        Refused::Media,
        Refused::Part,
        Refused::Tools,
        Refused::ToolCall,
        Refused::StoredConversation,
        Refused::Item,
        Refused::FinalMessage,
        Refused::Clock,
        Refused::Raised,
        Refused::Template,
        Refused::Value,
        Refused::NotJson,
        Refused::Prompt,
        Refused::Tokenizer,
    ];

    /// The name in metrics and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Refused::NoTokenizer => "no_tokenizer",
            Refused::TokensDiffer => "tokens_differ",
            Refused::TemplateDiffers => "template_differs",
            Refused::NoTemplate => "no_template",
            Refused::OwnTemplate => "own_template",
            Refused::Truncated => "truncated",
            Refused::Keywords => "keywords",
            Refused::ReusedIds => "reused_ids",
            Refused::Option => "option",
            Refused::Messages => "messages",
            Refused::Media => "media",
            Refused::Part => "part",
            Refused::Tools => "tools",
            Refused::ToolCall => "tool_call",
            Refused::StoredConversation => "stored_conversation",
            Refused::Item => "item",
            Refused::FinalMessage => "final_message",
            Refused::Clock => "clock",
            Refused::Raised => "raised",
            Refused::Template => "template",
            Refused::Value => "value",
            Refused::NotJson => "not_json",
            Refused::Prompt => "prompt",
            Refused::Tokenizer => "tokenizer",
        }
    }
}
