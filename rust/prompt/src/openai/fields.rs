//! Fields of a request, raw, by name.

use crate::json::unescape;

/// Raw values by name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) stream: Option<&'a str>,
    pub(super) max_tokens: Option<&'a str>,
    pub(super) max_completion_tokens: Option<&'a str>,
    pub(super) max_output_tokens: Option<&'a str>,
    pub(super) cache_salt: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) messages: Option<&'a str>,
    pub(super) system: Option<&'a str>,
    pub(super) tools: Option<&'a str>,
    pub(super) input: Option<&'a str>,
    pub(super) instructions: Option<&'a str>,
    pub(super) prompt: Option<&'a str>,
    pub(super) prompt_embeds: Option<&'a str>,
    pub(super) chat_template_kwargs: Option<&'a str>,
    pub(super) add_generation_prompt: Option<&'a str>,
    pub(super) continue_final_message: Option<&'a str>,
    pub(super) add_special_tokens: Option<&'a str>,
    pub(super) options: RenderOptions<'a>,
}

/// Raw values of fields that change how a chat is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RenderOptions<'a> {
    pub(crate) chat_template: Option<&'a str>,
    pub(crate) truncate_prompt_tokens: Option<&'a str>,
    pub(crate) documents: Option<&'a str>,
    pub(crate) reasoning_effort: Option<&'a str>,
    pub(crate) kv_transfer_params: Option<&'a str>,
    /// Of a response: what it goes on from, its effort, how it is cut.
    pub(crate) previous_response_id: Option<&'a str>,
    pub(crate) previous_input_messages: Option<&'a str>,
    pub(crate) reasoning: Option<&'a str>,
    pub(crate) truncation: Option<&'a str>,
    /// Of an Anthropic message: its effort.
    pub(crate) output_config: Option<&'a str>,
    pub(crate) thinking: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'a str>> {
        Some(match name {
            "model" => &mut self.model,
            "stream" => &mut self.stream,
            "max_tokens" => &mut self.max_tokens,
            "max_completion_tokens" => &mut self.max_completion_tokens,
            "max_output_tokens" => &mut self.max_output_tokens,
            "cache_salt" => &mut self.cache_salt,
            "user" => &mut self.user,
            "messages" => &mut self.messages,
            "system" => &mut self.system,
            "tools" => &mut self.tools,
            "input" => &mut self.input,
            "instructions" => &mut self.instructions,
            "prompt" => &mut self.prompt,
            "prompt_embeds" => &mut self.prompt_embeds,
            "chat_template_kwargs" => &mut self.chat_template_kwargs,
            "add_generation_prompt" => &mut self.add_generation_prompt,
            "continue_final_message" => &mut self.continue_final_message,
            "add_special_tokens" => &mut self.add_special_tokens,
            "chat_template" => &mut self.options.chat_template,
            "truncate_prompt_tokens" => &mut self.options.truncate_prompt_tokens,
            "documents" => &mut self.options.documents,
            "reasoning_effort" => &mut self.options.reasoning_effort,
            "kv_transfer_params" => &mut self.options.kv_transfer_params,
            "previous_response_id" => &mut self.options.previous_response_id,
            "previous_input_messages" => &mut self.options.previous_input_messages,
            "reasoning" => &mut self.options.reasoning,
            "truncation" => &mut self.options.truncation,
            "output_config" => &mut self.options.output_config,
            "thinking" => &mut self.options.thinking,
            _ => return None,
        })
    }

    pub(super) fn set(&mut self, key: &'a str, value: &'a str) {
        if let Some(slot) = unescape(key).and_then(|name| self.slot(&name)) {
            *slot = (value != "null").then_some(value);
        }
    }
}
