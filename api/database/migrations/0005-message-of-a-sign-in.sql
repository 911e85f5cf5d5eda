alter table service.sign_in add column message text;
create unique index sign_in_message on service.sign_in (message);
comment on column service.sign_in.message is 'SHA-256, in hex, of the message to sign. Null: an older version of the API began it, and it cannot be finished.';
