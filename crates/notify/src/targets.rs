//! The targets, one file each.

mod file;
mod mail;
mod syslog;
mod webhook;

use crate::action::TargetOptions;
use crate::target::Target;

/// The target of an action. Nothing is opened before the first message.
pub(crate) fn target(options: &TargetOptions) -> Box<dyn Target> {
    match options.clone() {
        TargetOptions::File(path) => Box::new(file::FileTarget::new(path)),
        TargetOptions::SyslogUdp(address) => Box::new(syslog::DatagramTarget::new(address)),
        TargetOptions::SyslogTcp(address) => Box::new(syslog::StreamTarget::new(address, None)),
        TargetOptions::SyslogTls(server) => Box::new(syslog::StreamTarget::new(server.address.clone(), Some(server))),
        TargetOptions::Webhook(hook) => Box::new(webhook::WebhookTarget::new(hook)),
        TargetOptions::Mail(mail) => Box::new(mail::MailTarget::new(mail)),
    }
}
